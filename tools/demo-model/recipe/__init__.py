"""The text that the demo model is made of."""
