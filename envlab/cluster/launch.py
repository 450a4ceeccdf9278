"""``envlab cluster launch``: one training on several hosts, all of them or none."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from envlab.cluster.arguments import (
    add_host_flags,
    check_positive,
    hosts_of,
    ssh_of,
    verb_parser,
)
from envlab.cluster.attach import attend
from envlab.cluster.hosts import Host
from envlab.cluster.interrupts import ending_in_order, uninterrupted
from envlab.cluster.launch_messages import complete, run_id_of, train_words
from envlab.cluster.node_script import RANK_PREFIX, node_script, torchrun_words
from envlab.cluster.preflight import (
    MIN_FREE_MB,
    Facts,
    Meeting,
    check_versions,
    meet,
    probe,
    reporting,
)
from envlab.cluster.pruning import KEEP_SNAPSHOTS, prune_snapshots
from envlab.cluster.snapshot import Sent, Snapshot, send_snapshot, take_snapshot
from envlab.cluster.ssh import Ssh, UnreachableError, on_all, results_of
from envlab.cluster.start import start_all
from envlab.cluster.state import Node, RunState, launch_lock, new_id
from envlab.cluster.training_words import check_places
from envlab.errors import ConfigurationError

START_TIMEOUT_S = 120

say = functools.partial(print, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab cluster launch``; return 0, or 1 if the run ends otherwise while attached."""
    parser = _parser()
    flags = parser.parse_args(list(arguments))
    check_places(flags.words[1:] if flags.words[:1] == ["--"] else flags.words, parser)
    if flags.detach and flags.fetch:
        raise ConfigurationError(
            "--fetch waits for the run's end and --detach does not: give one of them; later, run "
            "envlab cluster status --fetch."
        )
    check_positive(flags, "nproc_per_node", "start_timeout_s", "min_free_mb")
    if flags.keep_snapshots < 0:
        raise ConfigurationError(
            f"--keep_snapshots is {flags.keep_snapshots}, but must be at least 1, or 0 for all."
        )
    hosts, endpoint = hosts_of(flags), parse_endpoint(flags.distributed_ip_and_port)
    snapshot = take_snapshot(Path.cwd())
    words = train_words(flags.words, snapshot)
    launch = new_id()
    if flags.dry_run:
        _show(flags, hosts, snapshot, words, launch)
        return 0
    ssh = ssh_of(flags)
    with launch_lock(), ending_in_order():
        run = start(flags, hosts, endpoint, snapshot, words, launch, ssh)
    names = ", ".join(node.host.name for node in run.nodes)
    say(
        f"Run {run.id} trains on {names}. Watch it: envlab cluster status. Stop it: envlab cluster "
        "kill."
    )
    prune_snapshots(run, ssh, flags.keep_snapshots, say)
    return 0 if flags.detach else attend(run, ssh, fetch=flags.fetch, say=say)


def start(
    flags: argparse.Namespace,
    hosts: list[Host],
    endpoint: tuple[str | None, int | None],
    snapshot: Snapshot,
    words: list[str],
    launch: str,
    ssh: Ssh,
) -> RunState:
    """Check every host, send the code, and start the run on all of them.

    Raises:
        EnvlabError: If it cannot start on one; then nothing of it is left on any.
    """
    address, port = endpoint
    meeting_host = next((host for host in hosts if address in (host.name, host.address)), hosts[0])
    claimed = hosts
    try:
        answers = probe(
            hosts,
            ssh,
            launch,
            port=port,
            port_host=meeting_host,
            min_free_mb=flags.min_free_mb,
            beside=flags.beside_others,
        )
        claimed = [host for host in hosts if not isinstance(answers[host], UnreachableError)]
        facts = results_of(answers)
        if not flags.allow_different_versions:
            check_versions(facts)
        reporting(say, facts)
        meeting = meet(facts, ssh, meeting_host, address, port)
        send = functools.partial(_send, snapshot=snapshot, facts=facts, ssh=ssh)
        sent = results_of(on_all(hosts, send))
        run = _compose(flags, facts, meeting, snapshot, words, launch, ssh)
        texts = {
            node.host: _script(
                flags, run, node, facts[node.host], sent[node.host].folder, meeting.host
            )
            for node in run.nodes
        }
        run.save()
        start_all(run, ssh, texts, timeout_s=flags.start_timeout_s)
    except BaseException as error:
        with uninterrupted():
            if isinstance(error, KeyboardInterrupt):
                say("\nInterrupted: taking back what was begun on the hosts.")
            on_all(claimed, functools.partial(_drop, ssh=ssh, launch=launch))
        if isinstance(error, KeyboardInterrupt):
            raise KeyboardInterrupt("Nothing was started.") from None
        raise
    return run


def _send(host: Host, *, snapshot: Snapshot, facts: dict[Host, Facts], ssh: Ssh) -> Sent:
    sent = send_snapshot(snapshot, host, facts[host].path, ssh)
    if sent.num_files:
        say(f"{host.name}: sent {sent.num_files} files, {sent.num_bytes / 1e6:.1f} MB")
    else:
        say(f"{host.name}: has this code already")
    return sent


def _drop(host: Host, *, ssh: Ssh, launch: str) -> None:
    ssh.run(host, "drop.sh", host.path, launch)


def _compose(
    flags: argparse.Namespace,
    facts: dict[Host, Facts],
    meeting: Meeting,
    snapshot: Snapshot,
    words: list[str],
    launch: str,
    ssh: Ssh,
) -> RunState:
    """Return the run with its nodes in the order that torch gives them: by address, as text."""
    ordered = sorted(facts, key=lambda host: meeting.local[host])
    counts = [flags.nproc_per_node or host.slots or facts[host].num_gpus or 1 for host in ordered]
    nodes = [
        Node(
            host=host,
            node_rank=rank,
            first_rank=sum(counts[:rank]),
            path=facts[host].path,
            folder=f"{facts[host].path}/runs/{launch}",
            num_processes=counts[rank],
            local_address=meeting.local[host],
        )
        for rank, host in enumerate(ordered)
    ]
    return RunState(
        id=launch,
        created_at=datetime.now().astimezone().isoformat(timespec="seconds"),
        command=words,
        run_id=run_id_of(words) or launch,
        ssh_cmd=ssh.command,
        endpoint=endpoint_text(meeting.address, meeting.port),
        snapshot=snapshot.name,
        nodes=nodes,
    )


def _script(
    flags: argparse.Namespace,
    run: RunState,
    node: Node,
    facts: Facts,
    code: str,
    meeting_host: Host,
) -> str:
    """Return the script that runs a node's part."""
    torchrun = torchrun_words(
        launch=run.id,
        num_nodes=len(run.nodes),
        num_processes=node.num_processes,
        endpoint=run.endpoint,
        is_host=node.host == meeting_host,
        local_address=node.local_address,
        log_folder=f"{node.folder}/ranks",
        max_restarts=flags.max_restarts,
    )
    return node_script(
        title=f"Run {run.id} on {node.host.name}: node {node.node_rank} of {len(run.nodes)}.",
        cwd=node.path,
        run_folder=node.folder,
        activate=facts.activate,
        exports={
            "ENVLAB_CLUSTER_RUN": run.token(node),
            "PYTHONPATH": f"{code}:{code}/source",
            "PYTHONUNBUFFERED": "1",
            "TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE": RANK_PREFIX,
        },
        command=[*torchrun, f"{code}/{run.command[0]}", *complete(run.command, run.id)[1:]],
    )


def endpoint_text(address: str, port: int) -> str:
    """Return an address and a port as torchrun takes them."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def parse_endpoint(text: str | None) -> tuple[str | None, int | None]:
    """Return address and port of ``HOST:PORT``, ``HOST`` or ``:PORT``; None for what is not given.

    Raises:
        ConfigurationError: If it is none of these.
    """
    if text is None:
        return None, None
    address, colon, port = text.rpartition(":") if ":" in text else (text, "", "")
    if (colon and not port.isdigit()) or (port and not 0 <= int(port) < 65536) or " " in text:
        raise ConfigurationError(
            f"--distributed_ip_and_port is {text!r}, but must be ADDRESS:PORT with a port below "
            "65536, as in 10.0.0.1:29400; port 0 takes a free one."
        )
    return address.strip("[]") or None, int(port) if port and int(port) else None


def _show(
    flags: argparse.Namespace,
    hosts: list[Host],
    snapshot: Snapshot,
    words: list[str],
    launch: str,
) -> None:
    """Print what would be started where, as far as it is known without asking the hosts."""
    address, port = parse_endpoint(flags.distributed_ip_and_port)
    facts = {host: _unasked(host) for host in hosts}
    local = {host: f"<address of {host.name}>" for host in hosts}
    meeting = Meeting(hosts[0], address or local[hosts[0]], port or 0, local)
    run = _compose(flags, facts, meeting, snapshot, words, launch, ssh_of(flags))
    if port is None:
        run.endpoint = f"{meeting.address}:<free port>"
    say(f"Would send {len(snapshot.files)} files of {snapshot.root} as {snapshot.name}, and run:")
    for node in run.nodes:
        code = f"{node.path}/snapshots/{snapshot.name}"
        say(f"\n{_script(flags, run, node, facts[node.host], code, meeting.host)}", end="")


def _unasked(host: Host) -> Facts:
    """Return what is known of a host before it is asked."""
    return Facts(
        path=host.path,
        activate=host.env_activate_path or f"{host.path}/venv/bin/activate",
        hostname="",
        python="",
        packages={},
        num_gpus=0,
        port=None,
        client="",
        server="",
    )


def _parser() -> argparse.ArgumentParser:
    parser = verb_parser(
        "launch",
        "Send the working tree to the hosts, start one training on all of them or on none, and "
        "show their logs. Ctrl-C asks whether to leave it running or to stop it. What comes after "
        "the flags is a library and its train.py's arguments, or another script and its own.",
        "envlab cluster launch --runs_on 10.0.0.1,10.0.0.2 rsl_rl --task=Isaac-Ant-v0 "
        "--num_envs=256",
    )
    add_host_flags(parser)
    parser.add_argument(
        "--env_activate_path",
        metavar="PATH",
        help="script on the hosts that activates the environment (default: the one of setup)",
    )
    parser.add_argument(
        "--distributed_ip_and_port",
        metavar="IP:PORT",
        help="where the nodes meet (default: the first host, and a port that is free there)",
    )
    parser.add_argument(
        "--nproc_per_node",
        type=int,
        metavar="N",
        help="processes per host (default: slots in hosts.yaml, else one per GPU, else one)",
    )
    parser.add_argument(
        "--max_restarts",
        type=int,
        default=0,
        metavar="N",
        help="restarts of all processes after a failure (default: %(default)s)",
    )
    parser.add_argument("--detach", action="store_true", help="return once it has started")
    parser.add_argument("--fetch", action="store_true", help="copy the run to ./logs at its end")
    parser.add_argument(
        "--beside_others", action="store_true", help="start though other runs are on the hosts"
    )
    parser.add_argument(
        "--allow_different_versions",
        action="store_true",
        help="start though Python or packages differ between the hosts",
    )
    parser.add_argument(
        "--min_free_mb",
        type=int,
        default=MIN_FREE_MB,
        metavar="MB",
        help="disk space that each host must have (default: %(default)s)",
    )
    parser.add_argument(
        "--keep_snapshots",
        type=int,
        default=KEEP_SNAPSHOTS,
        metavar="N",
        help="newest snapshots to keep beside those in use (default: %(default)s; 0: all)",
    )
    parser.add_argument(
        "--start_timeout_s",
        type=int,
        default=START_TIMEOUT_S,
        metavar="SECONDS",
        help="how long the processes may take to meet (default: %(default)s)",
    )
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="LIBRARY | SCRIPT", help="what to train"
    )
    return parser
