"""What stages cost before they run: tokens, GPU hours, memory and disk, on a device that was measured or assumed."""
