"""Train an agent: ``python train.py --algo ppo``; see ``python train.py --help``."""

import sys

INSTALL = 'pip install -e ".[train]"'


def main() -> int:
    """Run the training command; returns its exit code."""
    try:
        from agents.ppo.run import main as run
    except ImportError as error:
        print(f"train.py needs {error.name}; install it with: {INSTALL}", file=sys.stderr)
        return 2
    return run()


if __name__ == "__main__":
    sys.exit(main())
