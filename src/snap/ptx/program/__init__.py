"""Turn a PTX tree into a program: look up names, build the control-flow graph, lay out memory."""
