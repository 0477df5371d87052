"""Write the stand-ins: ``python -m tests.stand_ins --output models/stand_ins``."""

from pathlib import Path

from pipeline.command import CommandParser, run_command


def main(output: Path) -> None:
    """Write one directory per stand-in below ``output``."""
    from tests.stand_ins.checkpoints import write_stand_ins

    directories = write_stand_ins(output)
    print(f"{output}: {', '.join(directories)}")


if __name__ == "__main__":
    parser = CommandParser(description=__doc__)
    parser.add_argument("--output", type=Path, default=Path("models/stand_ins"), help="directory to write below")
    run_command(main, parser.parse_args())
