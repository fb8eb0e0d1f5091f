"""Runs of test suites and corpora that are not part of this repository; pytest collects none."""
