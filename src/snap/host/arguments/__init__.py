"""Say what a kernel's parameters ask of a launch, and check the arguments."""
