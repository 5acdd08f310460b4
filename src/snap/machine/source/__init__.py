"""Write a program as Python source that runs over the lanes of many threads."""
