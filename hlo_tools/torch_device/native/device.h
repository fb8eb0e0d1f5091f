// The PyTorch device "neuron": what the translation units of the library share.
//
// Device memory is host memory. An operator runs on the CPU's kernel, over tensors of the CPU that
// share the storage of the device's tensors.
#pragma once

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/stack.h>
#include <c10/core/Allocator.h>
#include <c10/core/CachingDeviceAllocator.h>
#include <c10/core/Device.h>
#include <c10/core/Storage.h>

#include <array>
#include <cstdint>

namespace c10 {
class OperatorHandle;
}

namespace neuron {

constexpr c10::DeviceType DEVICE_TYPE = c10::DeviceType::PrivateUse1;
constexpr std::size_t MAX_DEVICES = 127;  // a c10::DeviceIndex has eight bits

// How many devices there are; set once, when the library is installed.
c10::DeviceIndex device_count();
void set_device_count(c10::DeviceIndex count);

// The device of the calling thread.
c10::DeviceIndex current_device();
void set_current_device(c10::DeviceIndex index);
c10::DeviceIndex checked_index(c10::DeviceIndex index);

// Memory that counts in the statistics of its device.
c10::DeviceAllocator* device_allocator();
c10::Allocator* pinned_allocator();
bool is_pinned(const void* data);

// A storage of the device over the memory of a storage of the CPU, which it keeps.
c10::Storage device_storage(const c10::Storage& host, c10::DeviceIndex index);

// The memory of a storage of the CPU moved into one of the device: views of the latter see it.
void move_memory(c10::StorageImpl& device, c10::StorageImpl& host);

// A storage of the CPU over the memory of one of the device, which it keeps.
c10::Storage host_storage(const c10::Storage& device);

// The CPU's generator behind one of the device.
at::Generator host_generator(const at::Generator& generator);

at::Tensor device_view(const at::Tensor& tensor, std::int64_t index);

// Runs an operator's kernel of the CPU over the memory of its arguments.
void run_on_host_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack);

// Collectives of c10d, through the group's backend for the CPU.
void register_collectives();

// Operators whose kernel for any device would run instead of the CPU's.
void register_operators();

bool is_neuron(const at::Tensor& tensor);

// A tensor of the other kind over the same memory, with the same extents, strides and marks.
at::Tensor tensor_over(const at::Tensor& tensor, c10::Storage storage, c10::DispatchKey key);

}  // namespace neuron
