"""The skills, one a file: each makes turns."""
