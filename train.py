"""Train an agent: ``python train.py --algo ppo``; see ``python train.py --help``."""

import sys

INSTALL = 'pip install -e ".[train]"'


def main() -> int:
    """Run the training command; returns its exit code."""
    try:
        from agents.training.command import main as run
    except ImportError as error:
        what = error.name or str(error)
        if what.split(".")[0] in ("agents", "alles_kaese_env"):  # python -I, or another "agents"
            what = f"its own {what}, which Python does not find"
        print(f"train.py needs {what}; install it with: {INSTALL}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return run()


if __name__ == "__main__":
    sys.exit(main())
