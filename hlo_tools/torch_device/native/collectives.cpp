// Collectives on tensors of the device: the group's backend for the CPU, over the same memory.
#include "device.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/div.h>
#include <c10/util/Exception.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <torch/csrc/distributed/c10d/Work.hpp>
#include <torch/library.h>

#include <mutex>

namespace neuron {
namespace {

// A collective that runs: its future has tensors of the device, as DistributedDataParallel takes them.
class DeviceWork final : public c10d::Work {
 public:
  DeviceWork(c10::intrusive_ptr<c10d::Work> host, c10::DeviceIndex index) : host_(std::move(host)), index_(index) {}
  bool isCompleted() override { return host_->isCompleted(); }
  bool isSuccess() const override { return host_->isSuccess(); }
  std::exception_ptr exception() const override { return host_->exception(); }
  int sourceRank() const override { return host_->sourceRank(); }
  // Gloo's reduce_scatter writes its result in wait(), each time; afterwards the result is the user's.
  bool wait(std::chrono::milliseconds timeout) override {
    const std::lock_guard<std::mutex> lock(waiting_);
    return is_done_ || (is_done_ = host_->wait(timeout));
  }
  void synchronize() override { wait(std::chrono::milliseconds(0)); }
  void abort() override { host_->abort(); }
  std::vector<at::Tensor> result() override { return on_device(host_->result(), index_); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override {
    const c10::DeviceIndex index = index_;
    return host_->getFuture()->then(
        [index](c10::ivalue::Future& future) -> c10::IValue {
          const c10::IValue value = future.value();
          return value.isTensorList() ? c10::IValue(on_device(value.toTensorVector(), index)) : value;
        },
        c10::ListType::ofTensors());
  }

 private:
  static std::vector<at::Tensor> on_device(const std::vector<at::Tensor>& hosts, c10::DeviceIndex index) {
    std::vector<at::Tensor> tensors;
    for (const at::Tensor& host : hosts) tensors.push_back(is_neuron(host) ? host : device_view(host, index));
    return tensors;
  }

  c10::intrusive_ptr<c10d::Work> host_;
  c10::DeviceIndex index_;
  std::mutex waiting_;
  bool is_done_ = false;
};

bool is_object(const c10::IValue& value, const char* name) {
  return value.isCustomClass() && value.type()->str().find(name) != std::string::npos;
}

// Gloo has no average: the sum is divided by the number of ranks, which waits for it.
int replace_average(torch::jit::Stack* stack, std::size_t begin) {
  int ranks = 0;
  bool averages = false;
  for (std::size_t i = begin; i < stack->size(); ++i) {
    if (is_object((*stack)[i], "ProcessGroup")) ranks = (*stack)[i].toCustomClass<c10d::ProcessGroup>()->getSize();
    if (!is_object((*stack)[i], "ReduceOp")) continue;
    if ((*stack)[i].toCustomClass<c10d::ReduceOp>()->op_ != c10d::ReduceOp::AVG) continue;
    averages = true;
    (*stack)[i] = c10::IValue(c10::make_intrusive<c10d::ReduceOp>(c10d::ReduceOp::SUM));
  }
  return averages ? ranks : 0;
}

void divide(const c10::IValue& value, int ranks) {
  if (value.isTensor() && value.toTensor().defined()) at::Tensor(value.toTensor()).div_(ranks);
  if (value.isTensorList())
    for (at::Tensor tensor : value.toTensorVector()) tensor.div_(ranks);
}

void run_collective(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  const std::size_t count = op.schema().arguments().size();
  const std::vector<c10::IValue> arguments(stack->end() - static_cast<std::ptrdiff_t>(count), stack->end());
  const int ranks = replace_average(stack, stack->size() - count);
  run_on_host_kernel(op, stack);
  for (std::size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    if (!is_object((*stack)[i], "Work")) continue;
    c10::intrusive_ptr<c10d::Work> work =
        c10::make_intrusive<DeviceWork>((*stack)[i].toCustomClass<c10d::Work>(), current_device());
    if (ranks > 0) {
      work->synchronize();
      divide(arguments.front(), ranks);
    }
    (*stack)[i] = c10::IValue(work);
  }
}

// Torch 2.9 has no fallback of autograd for this device, which operators of other libraries (c10d, fsdp)
// need; a newer one has it and refuses another.
void add_autograd_fallback() {
  auto& library = *new torch::Library(torch::Library::IMPL, "_", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  try {
    library.fallback(torch::CppFunction::makeFallthrough());
  } catch (const c10::Error&) {
  }
}

struct Silent final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

}  // namespace

void register_collectives() {
  Silent silent;  // the dispatcher warns that PyTorch's kernels for the device type are replaced
  const c10::WarningUtils::WarningHandlerGuard guard(&silent);
  add_autograd_fallback();
  auto& dispatcher = c10::Dispatcher::singleton();
  auto& library = *new torch::Library(torch::Library::IMPL, "c10d", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    const auto op = name.name.rfind("c10d::", 0) == 0 ? dispatcher.findOp(name) : std::nullopt;
    if (!op || !op->hasKernelForDispatchKey(c10::DispatchKey::CPU) || !op->hasKernelForDispatchKey(c10::DispatchKey::PrivateUse1))
      continue;
    const std::string text = name.name.substr(6);
    library.impl(text.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_collective>());
  }
}

}  // namespace neuron
