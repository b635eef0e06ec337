"""What a broker can be told, declared by subject; `config/broker.py` puts it together."""
