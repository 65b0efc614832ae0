"""Pages and scripts of the control plane, through the doors that people use."""
