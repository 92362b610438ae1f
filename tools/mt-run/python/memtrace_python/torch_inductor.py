"""torch.compile: of several ways to compile a kernel the first one is taken, for times on the CPU device say nothing of a GPU,
and each trial would be a launch of the trace. What it makes lies in a folder of our own."""
import atexit
import os
import shutil
import tempfile

from memtrace_python import cache_folder, need

PACKAGES = ("torch",)
KNOWN = "torch 2.15"


def keep_apart():
    folder = cache_folder("torch")
    if not folder:
        folder = tempfile.mkdtemp(prefix="memtrace-torch-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder


def attach(module):
    if module.__name__ == "torch._C":
        keep_apart()
        return
    tuner = need(module, "CachingAutotuner")
    need(tuner, "benchmark_all_configs", ("args", "kwargs"))
    need(tuner, "autotune_to_one_config")

    def benchmark_all_configs(self, *args, **kwargs):
        return {launcher: float(at) for at, launcher in enumerate(self.launchers)}

    tuner.benchmark_all_configs = benchmark_all_configs
