"""torch.compile. Its compiler processes have the hook, too. Its output is in a folder of our own. Constants are not
computed beforehand, for that is done by PyTorch's own kernels, which are machine code. Of several ways to compile a kernel the
first one is taken: times on the CPU device say nothing of a GPU, and each trial would be a launch of the trace."""
import os
import sys

from memtrace_python import need, package_folder, replaced

PACKAGES = ("torch",)
KNOWN = "torch 2.15"
HERE = sys.modules[__name__]
HOOK = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def keep_apart(_):
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = package_folder("torch")


def no_constants(config):
    need(config, "joint_graph_constant_folding")
    config.joint_graph_constant_folding = False


def hook_children(utils):
    environment = need(utils, "python_subprocess_env")

    def python_subprocess_env(**call):
        env = environment(**call)
        return {**env, "PYTHONPATH": os.pathsep.join(filter(None, (HOOK, env.get("PYTHONPATH"))))}

    utils.python_subprocess_env = replaced(HERE, environment, python_subprocess_env)


def take_first(heuristics):
    tuner = need(heuristics, "CachingAutotuner")
    benchmark = need(tuner, "benchmark_all_configs", ("self",))
    need(tuner, "autotune_to_one_config")

    def benchmark_all_configs(self, **_):
        return {launcher: float(at) for at, launcher in enumerate(self.launchers)}

    tuner.benchmark_all_configs = replaced(HERE, benchmark, benchmark_all_configs)


CHANGES = {"torch._C": keep_apart, "torch._inductor.config": no_constants, "torch._inductor.utils": hook_children,
           "torch._inductor.runtime.triton_heuristics": take_first}


def attach(module):
    CHANGES[module.__name__](module)
