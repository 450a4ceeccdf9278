"""``envlab cluster launch``: one training on several hosts, all of them or none."""

from __future__ import annotations

import argparse
import functools
import secrets
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from envlab.errors import ConfigurationError
from envlab.interrupts import ending_in_order, uninterrupted
from envlab_cluster.arguments import VerbParser, check_positive, hosts_of, ssh_of
from envlab_cluster.attach import attend
from envlab_cluster.hosts import Host
from envlab_cluster.node_script import RANK_PREFIX, node_script, torchrun_words
from envlab_cluster.preflight import MIN_FREE_MB, Facts, Meeting, check_versions, meet, probe
from envlab_cluster.processes import start_all
from envlab_cluster.snapshot import (
    KEEP_SNAPSHOTS,
    Sent,
    check_rsync,
    prune_snapshots,
    send_snapshot,
    take_snapshot,
)
from envlab_cluster.ssh import HostError, UnreachableError, on_all, results_of
from envlab_cluster.state import Node, RunState, launch_lock, new_id
from envlab_cluster.training_words import (
    check_places,
    for_node,
    for_several_hosts,
    run_id_of,
    script_words,
    without_dashes,
)

DESCRIPTION = (
    "Send the working tree to the hosts, start one training on all of them or on none, and show "
    "their logs. Ctrl-C asks whether to leave it running or to stop it. The flags are followed by "
    "a library and the arguments of its train.py, or by another script and its arguments."
)
EXAMPLE = (
    "envlab cluster launch --runs_on 10.0.0.1,10.0.0.2 rsl_rl --task=Isaac-Ant-v0 --num_envs=256"
)
START_TIMEOUT_S = 120

say = functools.partial(print, flush=True)


def main(arguments: Sequence[str]) -> int:
    """Run ``envlab cluster launch``."""
    parser = VerbParser("envlab cluster launch", DESCRIPTION, EXAMPLE)
    add_flags(parser)
    parser.add_argument(
        "words", nargs=argparse.REMAINDER, metavar="LIBRARY | SCRIPT", help="what to train"
    )
    flags = parser.parse_args(arguments)
    flags.words = without_dashes(flags.words)
    check_places(flags.words, parser)
    return run(flags)


def add_flags(parser: VerbParser) -> None:
    """Add the flags of the verb, without what to train."""
    parser.add_host_flags()
    parser.value(
        "--env_activate_path",
        metavar="PATH",
        help="script on the hosts that activates the environment (default: the one of setup)",
    )
    parser.value(
        "--distributed_ip_and_port",
        metavar="IP:PORT",
        help="where the nodes meet (default: the first host, and a free port on it)",
    )
    parser.value(
        "--nproc_per_node",
        type=int,
        metavar="N",
        help="processes per host (default: slots in hosts.yaml, else one per GPU, else one)",
    )
    for name, default, metavar, meaning in (
        ("max_restarts", 0, "N", "restarts of all processes after a failure"),
        ("min_free_mb", MIN_FREE_MB, "MB", "disk space that each host must have"),
        ("keep_snapshots", KEEP_SNAPSHOTS, "N", "newest snapshots to keep; 0: all"),
        ("start_timeout_s", START_TIMEOUT_S, "SECONDS", "longest time for the processes to meet"),
    ):
        parser.value(f"--{name}", type=int, default=default, metavar=metavar, help=meaning)
    parser.switch("--detach", "return once it has started")
    parser.switch("--fetch", "copy the run to ./logs at its end")
    parser.switch("--beside_others", "start even if other runs are on the hosts")
    parser.switch(
        "--allow_different_versions", "start even if Python or packages differ between the hosts"
    )


def run(flags: argparse.Namespace) -> int:
    """Launch; return 0, or 1 if the run ends otherwise while attached."""
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
    launch = Launch(flags)
    if flags.dry_run:
        launch.show()
        return 0
    with launch_lock(), ending_in_order():
        started = launch.start()
    say(
        f"Run {started.id} trains on {started.host_names}. Watch it: envlab cluster status. "
        "Stop it: envlab cluster kill."
    )
    prune_snapshots(started, launch.ssh, flags.keep_snapshots, say)
    return 0 if flags.detach else attend(started, launch.ssh, fetch=flags.fetch, say=say)


class Launch:
    """A launch by flags, which are checked at construction; then shown or started."""

    def __init__(self, flags: argparse.Namespace) -> None:
        self.id = new_id()
        self._rdzv_id = f"{self.id}-{secrets.token_hex(8)}"
        self._flags = flags
        self._hosts = hosts_of(flags)
        self._address, self._port = parse_endpoint(flags.distributed_ip_and_port)
        self._snapshot = take_snapshot(Path.cwd())
        self._words = script_words(flags.words, self._snapshot)
        self.ssh = ssh_of(flags)

    def start(self) -> RunState:
        """Check every host, send the code, and start the run on all of them.

        Raises:
            EnvlabError: If it cannot start on a host; it is then removed from all hosts.
        """
        self.ssh.check_here()
        check_rsync()
        claimed = self._hosts
        try:
            answers = self._probe()
            claimed = [
                host for host, one in answers.items() if not isinstance(one, UnreachableError)
            ]
            facts = results_of(answers)
            if not self._flags.allow_different_versions:
                check_versions(facts)
            for host, one in facts.items():
                say(f"{host.name}: {one}")
            meeting = meet(facts, self.ssh, self._meeting_host, self._address, self._port)
            sent = results_of(on_all(self._hosts, lambda host: self._send(host, facts[host].path)))
            run = self._compose(facts, meeting)
            texts = {
                node.host: self._script(
                    run, node, facts[node.host], sent[node.host].folder, meeting
                )
                for node in run.nodes
            }
            run.save()
            start_all(run, self.ssh, texts, timeout_s=self._flags.start_timeout_s)
        except BaseException as error:
            is_interrupted = isinstance(error, KeyboardInterrupt)
            with uninterrupted():
                if is_interrupted:
                    say("\nInterrupted: undoing what was begun on the hosts.")
                on_all(claimed, lambda host: self.ssh.run(host, "drop.sh", host.path, self.id))
            if is_interrupted:
                raise KeyboardInterrupt("Nothing was started.") from None
            raise
        return run

    def show(self) -> None:
        """Print what would be started where, as far as is known without contact to the hosts."""
        facts = {host: Facts.of_unasked(host) for host in self._hosts}
        local = {host: f"<address of {host.name}>" for host in self._hosts}
        first = self._meeting_host
        meeting = Meeting(first, self._address or local[first], self._port or 0, local)
        run = self._compose(facts, meeting)
        if self._port is None:
            run.endpoint = f"{meeting.address}:<free port>"
        tree = self._snapshot
        say(f"Would send {len(tree.files)} files of {tree.root} as {tree.name}, and run:")
        for node in run.nodes:
            code = f"{node.path}/snapshots/{tree.name}"
            say(f"\n{self._script(run, node, facts[node.host], code, meeting)}", end="")

    @property
    def _meeting_host(self) -> Host:
        """Return the host where the nodes meet: the one whose address is given, or the first."""
        named = (host for host in self._hosts if self._address in (host.name, host.address))
        return next(named, self._hosts[0])

    def _probe(self) -> dict[Host, Facts | HostError]:
        flags = self._flags
        return probe(
            self._hosts,
            self.ssh,
            self.id,
            port=self._port,
            port_host=self._meeting_host,
            min_free_mb=flags.min_free_mb,
            beside=flags.beside_others,
        )

    def _send(self, host: Host, path: str) -> Sent:
        sent = send_snapshot(self._snapshot, host, path, self.ssh)
        if sent.num_files:
            say(f"{host.name}: sent {sent.num_files} files, {sent.num_bytes / 1e6:.1f} MB")
        else:
            say(f"{host.name}: has this code already")
        return sent

    def _compose(self, facts: dict[Host, Facts], meeting: Meeting) -> RunState:
        """Return the run, its nodes in the order that torch gives them: by address, as text."""
        nodes: list[Node] = []
        for host in sorted(facts, key=lambda host: meeting.local[host]):
            path = facts[host].path
            node = Node(
                host=host,
                node_rank=len(nodes),
                first_rank=sum(node.num_processes for node in nodes),
                path=path,
                folder=f"{path}/runs/{self.id}",
                num_processes=self._flags.nproc_per_node or host.slots or facts[host].num_gpus or 1,
                local_address=meeting.local[host],
            )
            nodes.append(node)
        return RunState(
            id=self.id,
            created_at=datetime.now().astimezone().isoformat(timespec="seconds"),
            command=self._words,
            run_id=run_id_of(self._words) or self.id,
            ssh_cmd=self.ssh.command,
            endpoint=endpoint_text(meeting.address, meeting.port),
            snapshot=self._snapshot.name,
            nodes=nodes,
        )

    def _script(self, run: RunState, node: Node, facts: Facts, code: str, meeting: Meeting) -> str:
        """Return the script that runs a node's part, given the node's folder with the code."""
        torchrun = torchrun_words(
            run,
            node,
            rdzv_id=self._rdzv_id,
            is_host=node.host == meeting.host,
            max_restarts=self._flags.max_restarts,
        )
        words = for_several_hosts(run.command, run.id)
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
            command=[*torchrun, *for_node(words, code, node.node_rank)],
        )


def endpoint_text(address: str, port: int) -> str:
    """Return an address and a port in torchrun's format."""
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def parse_endpoint(text: str | None) -> tuple[str | None, int | None]:
    """Return address and port of ``HOST:PORT``, ``HOST`` or ``:PORT``; None for missing parts.

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
