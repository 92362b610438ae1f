#!/usr/bin/env python3
"""Replays the merged trace of cas on standard input and prints what cas must have printed."""
import sys
import share_sim

if __name__ == "__main__":
    sys.exit(share_sim.main(with_fails=True))
