"""``neuronxcc.driver``: where the vendor's command line has its entry point."""
