#!/usr/bin/env python3
"""Replays the merged trace of inc on standard input and prints what inc must have printed."""
import sys
import share_sim

if __name__ == "__main__":
    sys.exit(share_sim.main(with_fails=False))
