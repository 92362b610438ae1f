"""insn mode."""
