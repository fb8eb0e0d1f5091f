"""Parts that commands share: their table, options, inputs, outputs, settings and error reports."""
