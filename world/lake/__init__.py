"""Tables and files on a disk or in a store, as tasks of a run read and write them."""
