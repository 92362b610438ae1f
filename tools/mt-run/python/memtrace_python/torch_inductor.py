"""torch.compile. Its processes that compile have the hook, too. What it makes lies in a folder of our own. Constants are not
computed beforehand, for that is done by PyTorch's own kernels, which are machine code. Of several ways to compile a kernel the
first one is taken: times on the CPU device say nothing of a GPU, and each trial would be a launch of the trace."""
import os

from memtrace_python import need, package_folder

PACKAGES = ("torch",)
KNOWN = "torch 2.15"
HOOK = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def keep_apart(_):
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = package_folder("torch")


def no_constants(config):
    need(config, "joint_graph_constant_folding")
    config.joint_graph_constant_folding = False


def hook_children(utils):
    environment = need(utils, "python_subprocess_env")

    def python_subprocess_env():
        env = environment()
        return {**env, "PYTHONPATH": os.pathsep.join((HOOK, env["PYTHONPATH"]))}

    utils.python_subprocess_env = python_subprocess_env


def take_first(heuristics):
    tuner = need(heuristics, "CachingAutotuner")
    need(tuner, "benchmark_all_configs", ("args", "kwargs"))
    need(tuner, "autotune_to_one_config")

    def benchmark_all_configs(self, *args, **kwargs):
        return {launcher: float(at) for at, launcher in enumerate(self.launchers)}

    tuner.benchmark_all_configs = benchmark_all_configs


CHANGES = {"torch._C": keep_apart, "torch._inductor.config": no_constants, "torch._inductor.utils": hook_children,
           "torch._inductor.runtime.triton_heuristics": take_first}


def attach(module):
    CHANGES[module.__name__](module)
