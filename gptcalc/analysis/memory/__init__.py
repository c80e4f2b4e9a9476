"""What a device must hold: weights and cache, run or trained, on one device or on many; does it fit?"""
