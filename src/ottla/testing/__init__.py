"""What tests of brokers, ours and yours, are made of: fakes of the world, and faults to order."""
