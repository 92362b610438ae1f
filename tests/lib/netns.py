"""Four hosts that have nothing but TCP between them: network namespaces with names of their own, joined by a bridge. All of it is in namespaces of
the test's own, files too: when it ends, killed or not, nothing is left."""
import json
import os
import shutil
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
HOSTS = ["10.77.0.%d" % i for i in range(1, 5)]
NAMES = ["host-%d" % i for i in range(1, 5)]
INSIDE = "MT_TEST_IN_NETNS"
# A new user has all rights in namespaces of its own; the first process of that PID namespace dies with the test, and all
# others with it.
UNSHARE = ["unshare", "--user", "--map-root-user", "--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"]
LIMIT = 100  # seconds; a hang fails the test


def run(*words):
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL)


def make_hosts():
    run("mount", "-t", "tmpfs", "none", "/run")  # where ip keeps names of namespaces, and we our files
    run("ip", "link", "add", "wire", "type", "bridge")
    run("ip", "link", "set", "wire", "up")
    for i, host in enumerate(HOSTS):
        run("ip", "netns", "add", host)
        run("ip", "link", "add", "port%d" % i, "type", "veth", "peer", "name", "eth0", "netns", host)
        run("ip", "link", "set", "port%d" % i, "master", "wire", "up")
        run("ip", "-n", host, "address", "add", host + "/24", "dev", "eth0")
        run("ip", "-n", host, "link", "set", "eth0", "up")
        run("ip", "-n", host, "link", "set", "lo", "up")


def impossible():
    """Why there can be no such hosts, or None."""
    for program in ("mpirun", "ip", "unshare"):
        if not shutil.which(program):
            return "there is no " + program
    if os.environ.get(INSIDE):
        return None
    probe = "mount -t tmpfs none /run && ip netns add a && ip link add port type veth peer name eth0 netns a && ip link add wire type bridge" \
            " && ip netns exec a unshare --uts hostname a"
    r = subprocess.run(UNSHARE + ["sh", "-c", probe], capture_output=True, text=True, stdin=subprocess.DEVNULL)
    return None if r.returncode == 0 else "no namespaces: " + r.stderr.strip()


def enter():
    """Goes on in the namespaces, with the hosts made."""
    if not os.environ.get(INSIDE):
        os.environ[INSIDE] = "1"
        os.execvp(UNSHARE[0], UNSHARE + [sys.executable, "-B", *sys.argv])
    make_hosts()


def sent_on_wires():
    """Bytes that came to the bridge from each host."""
    links = json.loads(subprocess.run(["ip", "-s", "-j", "link"], check=True, capture_output=True).stdout)
    received = {link["ifname"]: link["stats64"]["rx"]["bytes"] for link in links}
    return [received["port%d" % i] for i in range(len(HOSTS))]


def mpirun(ranks, folder, *args, hosts=HOSTS, **variables):
    """Ranks in blocks, as many on each host."""
    environment = dict(os.environ, OMPI_ALLOW_RUN_AS_ROOT="1", OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1", TMPDIR=folder, **variables)
    slots = ",".join("%s:%d" % (host, ranks // len(hosts)) for host in hosts)
    exported = "".join(" -x " + name for name in variables)
    return subprocess.run([os.path.join(HERE, "netns_rsh"), hosts[0],
                           "exec mpirun --host %s --oversubscribe --bind-to none --mca plm_rsh_agent %s/netns_rsh --mca btl tcp,self"
                           " --mca oob_tcp_if_include 10.77.0.0/24 --mca btl_tcp_if_include 10.77.0.0/24%s -n %d %s"
                           % (slots, HERE, exported, ranks, " ".join(args))],
                          env=environment, stdin=subprocess.DEVNULL, capture_output=True, timeout=LIMIT)
