"""What commands share: their table, options, inputs, outputs, settings, and how errors are shown."""
