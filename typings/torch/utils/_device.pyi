from torch import device

class DeviceContext:
    device: device
