"""The protobuf wire format, read without a schema."""
