// The device towards PyTorch's runtime: hooks, device guard, streams, events and generators.
#include "device.h"

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>

#include <atomic>
#include <chrono>

namespace neuron {
namespace {

c10::DeviceIndex devices = 0;
thread_local c10::DeviceIndex current = 0;
thread_local std::array<c10::StreamId, MAX_DEVICES> current_streams{};
std::atomic<c10::StreamId> last_stream{0};

using Clock = std::chrono::steady_clock;

// Operators are done when they return, so a recorded event is over at once.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  Guard() = default;
  explicit Guard(c10::DeviceType) {}
  c10::DeviceType type() const override { return DEVICE_TYPE; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device previous = getDevice();
    setDevice(device);
    return previous;
  }
  c10::Device getDevice() const override { return {DEVICE_TYPE, current}; }
  void setDevice(c10::Device device) const override { set_current_device(device.index()); }
  void uncheckedSetDevice(c10::Device device) const noexcept override {
    if (device.index() >= 0) current = device.index();
  }
  c10::Stream stream(c10::StreamId id, c10::Device device) const {
    return c10::Stream(c10::Stream::UNSAFE, {DEVICE_TYPE, checked_index(device.index())}, id);
  }
  c10::Stream getStream(c10::Device device) const override {
    return stream(current_streams.at(static_cast<std::size_t>(checked_index(device.index()))), device);
  }
  c10::Stream getDefaultStream(c10::Device device) const override { return stream(0, device); }
  c10::Stream getNewStream(c10::Device device, int) const override { return stream(++last_stream, device); }
  c10::Stream getStreamFromGlobalPool(c10::Device device, bool) const override {
    return stream(++last_stream, device);
  }
  c10::Stream exchangeStream(c10::Stream next) const override {
    auto& id = current_streams.at(static_cast<std::size_t>(checked_index(next.device_index())));
    const c10::Stream previous = stream(id, next.device());
    id = next.id();
    return previous;
  }
  c10::DeviceIndex deviceCount() const noexcept override { return devices; }
  bool queryStream(const c10::Stream&) const override { return true; }
  void synchronizeStream(const c10::Stream&) const override {}
  void synchronizeDevice(const c10::DeviceIndex) const override {}
  void record(void** event, const c10::Stream&, const c10::DeviceIndex, const c10::EventFlag) const override {
    if (*event == nullptr) *event = new Clock::time_point();
    *static_cast<Clock::time_point*>(*event) = Clock::now();
  }
  void block(void*, const c10::Stream&) const override {}
  bool queryEvent(void*) const override { return true; }
  void synchronizeEvent(void*) const override {}
  void destroyEvent(void* event, const c10::DeviceIndex) const noexcept override {
    delete static_cast<Clock::time_point*>(event);
  }
  void recordDataPtrOnStream(const c10::DataPtr&, const c10::Stream&) const override {}
  double elapsedTime(void* start, void* end, const c10::DeviceIndex) const override {
    TORCH_CHECK(start != nullptr && end != nullptr, "both events must be recorded before their time is read");
    const auto span = *static_cast<Clock::time_point*>(end) - *static_cast<Clock::time_point*>(start);
    return std::chrono::duration<double, std::milli>(span).count();
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard)

// A generator of the device is one of the CPU: the same seed gives the same numbers.
struct DeviceGenerator final : c10::GeneratorImpl {
  DeviceGenerator(at::Generator generator, c10::DeviceIndex index)
      : c10::GeneratorImpl({DEVICE_TYPE, index}, c10::DispatchKeySet(c10::DispatchKey::PrivateUse1)),
        host(std::move(generator)) {}
  void set_current_seed(std::uint64_t seed) override { host.set_current_seed(seed); }
  void set_offset(std::uint64_t offset) override { host.set_offset(offset); }
  std::uint64_t get_offset() const override { return host.get_offset(); }
  std::uint64_t current_seed() const override { return host.current_seed(); }
  std::uint64_t seed() override { return at::Generator(host).seed(); }
  void set_state(const c10::TensorImpl& state) override { host.unsafeGetGeneratorImpl()->set_state(state); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override {
    return host.unsafeGetGeneratorImpl()->get_state();
  }
  DeviceGenerator* clone_impl() const override { return new DeviceGenerator(host.clone(), device().index()); }
  at::Generator host;
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return devices > 0; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return devices; }
  void setCurrentDevice(c10::DeviceIndex index) const override { set_current_device(index); }
  c10::DeviceIndex getCurrentDevice() const override { return current; }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex index) const override {
    const c10::DeviceIndex previous = current;
    set_current_device(index);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex index) const override {
    return index < 0 ? current : exchangeDevice(index);
  }
  // The default generators are the CPU's: operators that take no generator draw from it, too.
  const at::Generator& getDefaultGenerator(c10::DeviceIndex index) const override {
    static const auto& generators = *new std::vector<at::Generator>([] {
      std::vector<at::Generator> made;
      for (c10::DeviceIndex number = 0; number < devices; ++number)
        made.push_back(at::make_generator<DeviceGenerator>(at::detail::getDefaultCPUGenerator(), number));
      return made;
    }());
    return generators.at(static_cast<std::size_t>(checked_index(index)));
  }
  at::Generator getNewGenerator(c10::DeviceIndex index) const override {
    return at::make_generator<DeviceGenerator>(at::make_generator<at::CPUGeneratorImpl>(), checked_index(index));
  }
  bool isPinnedPtr(const void* data) const override { return is_pinned(data); }
  at::Allocator* getPinnedMemoryAllocator() const override { return pinned_allocator(); }
  at::Device getDeviceFromPtr(void*) const override { return {DEVICE_TYPE, current}; }
  void resizePrivateUse1Bytes(const c10::Storage& storage, std::size_t size) const override {
    auto* impl = storage.unsafeGetStorageImpl();
    const std::size_t kept = std::min(size, impl->nbytes());
    const c10::DeviceIndex previous = exchangeDevice(impl->device().index());
    c10::DataPtr memory = device_allocator()->allocate(size);
    set_current_device(previous);
    if (kept > 0) device_allocator()->copy_data(memory.get(), impl->data_ptr().get(), kept);
    impl->set_data_ptr_noswap(std::move(memory));
    impl->set_nbytes(size);
  }
};

}  // namespace

c10::DeviceIndex device_count() { return devices; }
void set_device_count(c10::DeviceIndex count) { devices = count; }
c10::DeviceIndex current_device() { return current; }
void set_current_device(c10::DeviceIndex index) { current = checked_index(index); }

c10::DeviceIndex checked_index(c10::DeviceIndex index) {
  if (index < 0) return current;
  TORCH_CHECK(index < devices, "there is no device neuron:", static_cast<int>(index), "; there are ",
              static_cast<int>(devices), " (NEURON_RT_NUM_CORES changes that)");
  return index;
}

at::Generator host_generator(const at::Generator& generator) {
  auto* device = dynamic_cast<DeviceGenerator*>(generator.unsafeGetGeneratorImpl());
  return device == nullptr ? generator : device->host;
}

}  // namespace neuron

extern "C" {

void neuron_install(int count) {
  neuron::set_device_count(static_cast<c10::DeviceIndex>(count));
  at::RegisterPrivateUse1HooksInterface(new neuron::Hooks());
  neuron::register_operators();
  neuron::register_collectives();
}
}
