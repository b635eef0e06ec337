"""`ottla zookeeper`: a ZooKeeper server for laptops and tests."""
