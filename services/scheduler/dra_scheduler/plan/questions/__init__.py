"""The planner's questions: a module has everything about one question, and :mod:`.catalog` lists them."""
