"""Operations that the engines lack, as graphs of those that they have."""
