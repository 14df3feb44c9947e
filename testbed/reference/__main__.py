"""`python -m testbed.reference` (`make docs`): writes the generated part of docs/reference."""

from testbed.reference.pages import write

if __name__ == "__main__":
    write()
