"""Data of the field in files: Parquet, HDF5, NetCDF, Zarr, extended XYZ, read no further than asked."""
