"""Random programs beside other implementations; ``README.md`` lists the drivers."""
