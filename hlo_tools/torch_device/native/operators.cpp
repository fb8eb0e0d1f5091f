// Operators of the device: the CPU's kernels over the same memory, without a copy.
#include "device.h"

#include <ATen/EmptyTensor.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/view_native.h>
#include <ATen/ops/zeros.h>
#include <c10/core/DeviceGuard.h>
#include <torch/library.h>

#include <unordered_map>
#include <unordered_set>

namespace neuron {

bool is_neuron(const at::Tensor& tensor) { return tensor.defined() && tensor.device().type() == DEVICE_TYPE; }

at::Tensor tensor_over(const at::Tensor& tensor, c10::Storage storage, c10::DispatchKey key) {
  auto over = at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  auto* impl = over.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  impl->_set_conj(tensor.is_conj());
  impl->_set_neg(tensor.is_neg());
  return over;
}

at::Tensor device_view(const at::Tensor& tensor, int64_t index) {
  const auto number = checked_index(static_cast<c10::DeviceIndex>(index));
  return tensor_over(tensor, device_storage(tensor.storage(), number), c10::DispatchKey::PrivateUse1);
}

namespace {

// Operators that take tensors of the CPU beside those of a device.
const std::unordered_set<std::string>& mixed_operators() {
  static const std::unordered_set<std::string> names{
      "aten::index",       "aten::index_put_",          "aten::index_put",
      "aten::_index_put_impl_", "aten::_pack_padded_sequence", "aten::_unsafe_index",
      "aten::_unsafe_index_put", "aten::copy_", "aten::_copy_from",
  };
  return names;
}

at::SparseTensorImpl& sparse(const at::Tensor& tensor) {
  return *static_cast<at::SparseTensorImpl*>(tensor.unsafeGetTensorImpl());
}

at::Tensor sparse_tensor(c10::DispatchKey key, const caffe2::TypeMeta& dtype) {
  return at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(key), dtype);
}

void set_sparse(at::SparseTensorImpl& target, const at::SparseTensorImpl& source, const at::Tensor& indices, const at::Tensor& values) {
  target.raw_resize_(source.sparse_dim(), source.dense_dim(), source.sizes());
  target.set_indices_and_values_unsafe(indices, values);
  target.set_coalesced(source.coalesced());
}

// One call of an operator: which tensors of the CPU stand for which of the device.
class Call {
 public:
  Call(const c10::OperatorHandle& op, c10::DispatchKey key) : op_(op), key_(key) {}

  void run(torch::jit::Stack* stack) {
    const auto& schema = op_.schema();
    const std::size_t begin = stack->size() - schema.arguments().size();
    for (std::size_t i = begin; i < stack->size(); ++i) (*stack)[i] = to_host((*stack)[i]);
    if (index_ < 0) index_ = current_device();
    check_devices();
    {
      at::AutoDispatchBelowADInplaceOrView guard;
      op_.redispatchBoxed(c10::DispatchKeySet(key_), stack);
    }
    const std::size_t results = schema.returns().size();
    for (std::size_t i = stack->size() - results; i < stack->size(); ++i) (*stack)[i] = to_device((*stack)[i]);
    follow();
  }

 private:
  c10::IValue to_host(const c10::IValue& value) {
    if (value.isTensor()) return host_tensor(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(host_tensor(tensor));
      return tensors;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> tensors;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector())
        tensors.push_back(tensor ? std::optional<at::Tensor>(host_tensor(*tensor)) : std::nullopt);
      return tensors;
    }
    if (value.isList()) return nested(value, [this](const c10::IValue& element) { return to_host(element); });
    if (value.isDevice() && value.toDevice().type() == DEVICE_TYPE) {
      use_device(checked_index(value.toDevice().index()));
      return c10::Device(c10::DeviceType::CPU);
    }
    if (value.isGenerator()) return host_generator(value.toGenerator());
    if (value.isStorage() && value.toStorage().device_type() == DEVICE_TYPE) return host_memory(value.toStorage());
    return value;
  }

  at::Tensor host_tensor(const at::Tensor& tensor) {
    if (!is_neuron(tensor)) {
      if (tensor.defined() && tensor.dim() > 0) host_arguments_ = true;
      return tensor;
    }
    if (tensor.dim() > 0 || index_ < 0) use_device(tensor.device().index(), tensor.dim() > 0);
    at::Tensor host;
    if (tensor.layout() == c10::kSparse) {
      host = sparse_tensor(c10::DispatchKey::SparseCPU, tensor.dtype());
      const auto& source = sparse(tensor);
      set_sparse(sparse(host), source, host_tensor(source.indices()), host_tensor(source.values()));
    } else {
      TORCH_CHECK_NOT_IMPLEMENTED(tensor.layout() == c10::kStrided, "the device \"neuron\" has no tensors of layout ",
                                  tensor.layout(), "; use torch.sparse_coo, or keep them on the CPU");
      host = tensor_over(tensor, host_memory(tensor.storage()), c10::DispatchKey::CPU);
    }
    arguments_.emplace_back(tensor, host);
    return host;
  }

  // One storage of the CPU for each of the device, so that a kernel sees which arguments overlap.
  c10::Storage host_memory(const c10::Storage& device) {
    auto known = host_storages_.find(device.unsafeGetStorageImpl());
    if (known != host_storages_.end()) return known->second;
    c10::Storage host = host_storage(device);
    host_storages_.emplace(device.unsafeGetStorageImpl(), host);
    device_storages_.emplace(host.unsafeGetStorageImpl(), device);
    return host;
  }

  void use_device(c10::DeviceIndex index, bool fixed = true) {
    if (fixed && fixed_ && index_ != index)
      TORCH_CHECK(false, "Expected all tensors to be on the same device, but found at least two devices, neuron:",
                  static_cast<int>(index_), " and neuron:", static_cast<int>(index), "! (when calling ", op_.schema().name(), ")");
    if (!fixed_) index_ = index;
    fixed_ = fixed_ || fixed;
  }

  void check_devices() const {
    if (!host_arguments_ || arguments_.empty() || !fixed_) return;
    TORCH_CHECK(mixed_operators().count(op_.schema().name()) > 0,
                "Expected all tensors to be on the same device, but found at least two devices, neuron:",
                static_cast<int>(index_), " and cpu! (when calling ", op_.schema().name(), ")");
  }

  c10::IValue to_device(const c10::IValue& value) {
    if (value.isTensor()) return device_tensor(value.toTensor());
    if (value.isTensorList()) {
      c10::List<at::Tensor> tensors;
      for (const at::Tensor& tensor : value.toTensorVector()) tensors.push_back(device_tensor(tensor));
      return tensors;
    }
    if (value.isList()) return nested(value, [this](const c10::IValue& element) { return to_device(element); });
    return value;
  }

  // A list of lists of tensors, as collectives have them; a list of anything else as it is.
  template <typename Convert>
  static c10::IValue nested(const c10::IValue& value, Convert convert) {
    const auto list = value.toList();
    if (list.elementType()->kind() != c10::TypeKind::ListType) return value;
    c10::impl::GenericList converted(list.elementType());
    for (std::size_t i = 0; i < list.size(); ++i) converted.push_back(convert(list.get(i)));
    return converted;
  }

  at::Tensor device_tensor(at::Tensor host) {
    if (!host.defined() || is_neuron(host)) return host;
    for (const auto& [device, argument] : arguments_)
      if (argument.is_same(host)) return device;
    if (host.layout() == c10::kSparse) {
      auto device = sparse_tensor(c10::DispatchKey::SparsePrivateUse1, host.dtype());
      follow_sparse(device, host);
      return device;
    }
    TORCH_CHECK_NOT_IMPLEMENTED(host.layout() == c10::kStrided, "the device \"neuron\" has no tensors of layout ",
                                host.layout(), "; use torch.sparse_coo, or keep them on the CPU");
    if (host._is_zerotensor()) host = at::zeros(host.sizes(), host.options());
    return tensor_over(host, device_memory(host.storage()), c10::DispatchKey::PrivateUse1);
  }

  c10::Storage device_memory(const c10::Storage& host) {
    auto known = device_storages_.find(host.unsafeGetStorageImpl());
    if (known != device_storages_.end()) return known->second;
    c10::Storage device = device_storage(host, index_);
    device_storages_.emplace(host.unsafeGetStorageImpl(), device);
    return device;
  }

  // What an operator did to the memory, extents and strides of its arguments.
  void follow() {
    for (auto& [impl, host] : host_storages_) {
      if (host.data_ptr().get() != impl->data_ptr().get() || host.nbytes() != impl->nbytes())
        move_memory(*impl, *host.unsafeGetStorageImpl());
    }
    for (auto& [device, host] : arguments_) {
      if (host.layout() == c10::kSparse) {
        follow_sparse(device, host);
        continue;
      }
      auto* impl = device.unsafeGetTensorImpl();
      const c10::Storage storage = device_memory(host.storage());
      if (storage.unsafeGetStorageImpl() != device.storage().unsafeGetStorageImpl()) impl->set_storage_keep_dtype(storage);
      if (device.sizes() != host.sizes() || device.strides() != host.strides() || device.storage_offset() != host.storage_offset())
        impl->set_sizes_and_strides(host.sizes(), host.strides(), host.storage_offset());
    }
  }

  void follow_sparse(const at::Tensor& device, const at::Tensor& host) {
    const auto& source = sparse(host);
    set_sparse(sparse(device), source, device_tensor(source.indices()), device_tensor(source.values()));
  }

  const c10::OperatorHandle& op_;
  c10::DispatchKey key_;
  std::unordered_map<c10::StorageImpl*, c10::Storage> host_storages_;
  std::unordered_map<c10::StorageImpl*, c10::Storage> device_storages_;
  std::vector<std::pair<at::Tensor, at::Tensor>> arguments_;
  c10::DeviceIndex index_ = -1;
  bool fixed_ = false;
  bool host_arguments_ = false;
};

}  // namespace

void run_on_host_kernel(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call(op, c10::DispatchKey::CPU).run(stack);
}

namespace {

template <c10::DispatchKey key>
void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  Call(op, key).run(stack);
}

using Extents = c10::IntArrayRef;

c10::Device device_of(std::optional<c10::Device> device) {
  return {DEVICE_TYPE, checked_index(device ? device->index() : -1)};
}

at::Tensor empty(Extents extents, std::optional<at::ScalarType> dtype, std::optional<at::Layout>, std::optional<c10::Device> device,
                 std::optional<bool>, std::optional<at::MemoryFormat> format) {
  const c10::DeviceGuard guard(device_of(device));
  return at::detail::empty_generic(extents, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                   c10::dtype_or_default(dtype), format);
}

at::Tensor empty_strided(Extents extents, Extents strides, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                         std::optional<c10::Device> device, std::optional<bool>) {
  const c10::DeviceGuard guard(device_of(device));
  return at::detail::empty_strided_generic(extents, strides, device_allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                           c10::dtype_or_default(dtype));
}

at::Tensor host_view(const at::Tensor& tensor) {
  return is_neuron(tensor) ? tensor_over(tensor, host_storage(tensor.storage()), c10::DispatchKey::CPU) : tensor;
}


// Takes views that conjugate or negate as they are: PyTorch resolves them before _copy_from by a copy.
at::Tensor& copy(at::Tensor& target, const at::Tensor& source, bool) {
  host_view(target).copy_(host_view(source));
  return target;
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool) {
  host_view(target).copy_(host_view(source));
  return target;
}

at::Tensor copy_from_and_resize(const at::Tensor& source, const at::Tensor& target) {
  if (target.sizes() != source.sizes()) target.resize_(source.sizes());
  return copy_from(source, target, false);
}

at::Tensor& copy_sparse(at::Tensor& target, const at::Tensor& source, bool non_blocking) {
  TORCH_CHECK(target.is_sparse() && source.is_sparse(), "copy_() between dense and sparse tensors is not supported");
  const auto& from = sparse(source);
  const auto to_target = [&](const at::Tensor& tensor, at::ScalarType dtype) {
    return tensor.to(tensor.options().device(target.device()).dtype(dtype), non_blocking, true);
  };
  const at::Tensor indices = to_target(from.indices(), at::kLong);
  const at::Tensor values = to_target(from.values(), target.scalar_type());
  set_sparse(sparse(target), from, indices, values);
  return target;
}

void record_stream(at::Tensor&, at::Stream) {}

void refuse_compressed(const c10::OperatorHandle&, torch::jit::Stack*) {
  TORCH_CHECK_NOT_IMPLEMENTED(false, "the device \"neuron\" has no tensors of compressed layouts (sparse_csr, sparse_csc, "
                                     "sparse_bsr, sparse_bsc); use torch.sparse_coo, or keep them on the CPU");
}

// PyTorch has a kernel of any device beside the CPU's for some operators. Here the CPU's are meant.
template <c10::DispatchKey device, c10::DispatchKey host>
void prefer_host_kernels() {
  auto& dispatcher = c10::Dispatcher::singleton();
  auto& library = *new torch::Library(torch::Library::IMPL, "aten", device, __FILE__, __LINE__);
  for (const c10::OperatorName& name : dispatcher.getAllOpNames()) {
    if (name.name.rfind("aten::", 0) != 0) continue;
    const auto op = dispatcher.findOp(name);
    if (!op || !op->hasKernelForDispatchKey(host) || op->hasKernelForDispatchKey(device)) continue;
    if (op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd) ||
        op->hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutogradNonFunctional)) {
      const std::string text = name.name.substr(6) + (name.overload_name.empty() ? "" : "." + name.overload_name);
      library.impl(text.c_str(), torch::CppFunction::makeFromBoxedFunction<&run_on_host<host>>());
    }
  }
}

}  // namespace

void register_operators() {
  prefer_host_kernels<c10::DispatchKey::PrivateUse1, c10::DispatchKey::CPU>();
  prefer_host_kernels<c10::DispatchKey::SparsePrivateUse1, c10::DispatchKey::SparseCPU>();
}

}  // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", neuron::empty);
  m.impl("empty_strided", neuron::empty_strided);
  m.impl("copy_", neuron::copy);
  m.impl("_copy_from", neuron::copy_from);
  m.impl("_copy_from_and_resize", neuron::copy_from_and_resize);
  m.impl("as_strided", at::native::as_strided_tensorimpl);
  m.impl("view", at::native::view);
  m.impl("_reshape_alias", at::native::_reshape_alias);
  m.impl("record_stream", neuron::record_stream);
}

TORCH_LIBRARY_IMPL(aten, SparsePrivateUse1, m) { m.impl("copy_", neuron::copy_sparse); }

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&neuron::run_on_host<c10::DispatchKey::CPU>>());
}

TORCH_LIBRARY_IMPL(_, SparsePrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&neuron::run_on_host<c10::DispatchKey::SparseCPU>>());
}

TORCH_LIBRARY_IMPL(_, SparseCsrPrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&neuron::refuse_compressed>());
}

// The two kinds of tensors over one memory, for the Python side.
TORCH_LIBRARY(nki_hlo_device, m) {
  m.def("host_view(Tensor tensor) -> Tensor", neuron::host_view);
  m.def("device_view(Tensor tensor, int index) -> Tensor", neuron::device_view);
}
