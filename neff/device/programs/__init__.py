"""Programs as frameworks hand them over: read, rewritten, extracted."""
