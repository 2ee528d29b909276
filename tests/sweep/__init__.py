"""Every family, form of model, bound and kernel against quadrature; see `__main__`."""
