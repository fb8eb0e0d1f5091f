// Memory of the device: host memory, counted for each device; and pinned memory of the host.
#include "device.h"

#include <unistd.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <new>

namespace neuron {
namespace {

constexpr std::size_t ALIGNMENT_BYTES = 64;

using Statistics = c10::CachingDeviceAllocator::DeviceStats;
constexpr std::size_t AGGREGATE = static_cast<std::size_t>(c10::CachingAllocator::StatType::AGGREGATE);

std::mutex statistics_mutex;
std::array<Statistics, MAX_DEVICES> statistics;

// Memory and the device that it counts for.
struct Block {
  void* data;
  std::size_t size;
  c10::DeviceIndex index;
};

// A block whose memory belongs to a storage of the CPU.
struct AdoptedBlock {
  Block block;
  c10::DataPtr memory;
  c10::Storage owner;
};

void count(const Block& block, bool allocated) {
  std::lock_guard<std::mutex> lock(statistics_mutex);
  Statistics& device = statistics.at(static_cast<std::size_t>(block.index));
  const auto change = [allocated](c10::CachingAllocator::StatArray& counter, std::size_t amount) {
    allocated ? counter[AGGREGATE].increase(amount) : counter[AGGREGATE].decrease(amount);
  };
  change(device.allocation, 1);
  change(device.active, 1);
  change(device.segment, 1);
  for (auto* counter : {&device.allocated_bytes, &device.reserved_bytes, &device.active_bytes, &device.requested_bytes})
    change(*counter, block.size);
  allocated ? ++device.num_device_alloc : ++device.num_device_free;
}

void delete_block(void* context) {
  auto* block = static_cast<Block*>(context);
  count(*block, false);
  std::free(block->data);
  delete block;
}

void delete_adopted(void* context) {
  auto* adopted = static_cast<AdoptedBlock*>(context);
  count(adopted->block, false);
  delete adopted;
}

void delete_owner(void* context) { delete static_cast<c10::Storage*>(context); }

void* aligned_memory(std::size_t size) {
  void* data = nullptr;
  if (posix_memalign(&data, ALIGNMENT_BYTES, size) != 0) throw std::bad_alloc();
  return data;
}

struct DeviceMemory final : c10::DeviceAllocator {
  c10::DataPtr allocate(std::size_t size) override {
    const c10::Device device(DEVICE_TYPE, current_device());
    if (size == 0) return {nullptr, nullptr, &delete_block, device};
    auto* block = new Block{aligned_memory(size), size, device.index()};
    count(*block, true);
    return {block->data, block, &delete_block, device};
  }
  void copy_data(void* target, const void* source, std::size_t size) const override {
    std::memcpy(target, source, size);
  }
  bool initialized() override { return true; }
  void emptyCache(c10::MempoolId_t = {0, 0}) override {}
  void recordStream(const c10::DataPtr&, c10::Stream) override {}
  Statistics getDeviceStats(c10::DeviceIndex index) override {
    std::lock_guard<std::mutex> lock(statistics_mutex);
    return statistics.at(static_cast<std::size_t>(checked_index(index)));
  }
  void resetAccumulatedStats(c10::DeviceIndex index) override {
    for_each_counter(index, [](auto& counter) { counter[AGGREGATE].reset_accumulated(); });
  }
  void resetPeakStats(c10::DeviceIndex index) override {
    for_each_counter(index, [](auto& counter) { counter[AGGREGATE].reset_peak(); });
  }
  // An override in versions of torch that have it.
  std::pair<std::size_t, std::size_t> getMemoryInfo(c10::DeviceIndex) {
    const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
    return {page * static_cast<std::size_t>(sysconf(_SC_AVPHYS_PAGES)), page * static_cast<std::size_t>(sysconf(_SC_PHYS_PAGES))};
  }

 private:
  template <typename Change>
  void for_each_counter(c10::DeviceIndex index, Change change) {
    std::lock_guard<std::mutex> lock(statistics_mutex);
    Statistics& device = statistics.at(static_cast<std::size_t>(checked_index(index)));
    for (auto* counter : {&device.allocation, &device.active, &device.segment, &device.allocated_bytes, &device.reserved_bytes, &device.active_bytes, &device.requested_bytes})
      change(*counter);
  }
};

std::mutex pinned_mutex;
std::map<std::uintptr_t, std::size_t> pinned_ranges;

void delete_pinned(void* data) {
  {
    std::lock_guard<std::mutex> lock(pinned_mutex);
    pinned_ranges.erase(reinterpret_cast<std::uintptr_t>(data));
  }
  std::free(data);
}

struct PinnedMemory final : c10::Allocator {
  c10::DataPtr allocate(std::size_t size) override {
    const c10::Device device(c10::DeviceType::CPU);
    if (size == 0) return {nullptr, nullptr, &delete_pinned, device};
    void* data = aligned_memory(size);
    std::lock_guard<std::mutex> lock(pinned_mutex);
    pinned_ranges[reinterpret_cast<std::uintptr_t>(data)] = size;
    return {data, data, &delete_pinned, device};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &delete_pinned; }
  void copy_data(void* target, const void* source, std::size_t size) const override {
    std::memcpy(target, source, size);
  }
};

// Never destroyed: tensors may outlive the library's static objects.
auto& allocator = *new DeviceMemory();
auto& pinned = *new PinnedMemory();
REGISTER_ALLOCATOR(DEVICE_TYPE, &allocator)

c10::DataPtr adopted(c10::DataPtr memory, c10::Storage owner, void* data, std::size_t size, c10::DeviceIndex index) {
  auto* block = new AdoptedBlock{{data, size, index}, std::move(memory), std::move(owner)};
  count(block->block, true);
  return {data, block, &delete_adopted, c10::Device(DEVICE_TYPE, index)};
}

}  // namespace

c10::DeviceAllocator* device_allocator() { return &allocator; }
c10::Allocator* pinned_allocator() { return &pinned; }

bool is_pinned(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  std::lock_guard<std::mutex> lock(pinned_mutex);
  auto range = pinned_ranges.upper_bound(address);
  if (range == pinned_ranges.begin()) return false;
  --range;
  return address < range->first + range->second;
}

c10::Storage device_storage(const c10::Storage& host, c10::DeviceIndex index) {
  void* data = host.data_ptr().get();
  return c10::Storage(c10::Storage::use_byte_size_t(), host.nbytes(),
                      adopted({}, host, data, host.nbytes(), index), &allocator, true);
}

void move_memory(c10::StorageImpl& device, c10::StorageImpl& host) {
  const std::size_t size = host.nbytes();
  c10::DataPtr memory = host.set_data_ptr(c10::DataPtr());
  void* data = memory.get();
  device.set_data_ptr_noswap(adopted(std::move(memory), {}, data, size, device.device().index()));
  device.set_nbytes(size);
}

c10::Storage host_storage(const c10::Storage& device) {
  void* data = device.unsafeGetStorageImpl()->data_ptr().get();
  c10::DataPtr memory(data, new c10::Storage(device), &delete_owner, c10::Device(c10::DeviceType::CPU));
  return c10::Storage(c10::Storage::use_byte_size_t(), device.nbytes(), std::move(memory),
                      c10::GetAllocator(c10::DeviceType::CPU), true);
}

}  // namespace neuron
