// Nothing of this is a kernel's.
