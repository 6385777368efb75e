"""What was found in something that was examined, and how it is said."""
