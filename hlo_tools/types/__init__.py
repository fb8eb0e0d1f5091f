"""What messages are made of: element types, shapes, literals, opcodes, ids."""
