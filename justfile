# Commands of everyday work; `just` lists them. The same without just: the lines below.

_list:
    @just --list

# Formats, lints, and tests all libraries: a few minutes
quick:
    .ci/run quick

# All that a change must pass before it lands
full:
    .ci/run full

# Builds with the oldest compiler that is promised
msrv:
    .ci/run msrv

# What needs hours; goes on where it was
long:
    .ci/run long

# Formats everything
fmt:
    cargo fmt --all
