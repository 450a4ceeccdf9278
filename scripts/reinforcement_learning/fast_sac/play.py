"""Play a policy that FastSAC trained, and export it; see --help."""

from envlab.cli import play

if __name__ == "__main__":
    raise SystemExit(play("fast_sac"))
