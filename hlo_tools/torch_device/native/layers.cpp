// Layers for which PyTorch takes operators that the CPU has no kernel of: convolutions, and the fused
// cells of LSTM and GRU. PyTorch's own kernels of the cells (aten/src/ATen/native/cuda/RNN.cu) are CUDA's; the
// equations here are those of the documentation of torch.nn.LSTMCell and GRUCell.
#include "device.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/zeros_like.h>
#include <torch/library.h>

namespace neuron {
namespace {

using at::Tensor;
using MaybeTensor = std::optional<Tensor>;

Tensor with_bias(const Tensor& gates, const MaybeTensor& bias) {
  return bias && bias->defined() ? gates + *bias : gates;
}

// The next hidden and cell state; the workspace has the four gates.
std::tuple<Tensor, Tensor, Tensor> lstm_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& cell,
                                             const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const auto gates = (with_bias(input_gates, input_bias) + with_bias(hidden_gates, hidden_bias)).chunk(4, 1);
  const Tensor input = gates[0].sigmoid(), forget = gates[1].sigmoid(), candidate = gates[2].tanh(), output = gates[3].sigmoid();
  const Tensor next_cell = forget * cell + input * candidate;
  return {output * next_cell.tanh(), next_cell, at::cat({input, forget, candidate, output}, 1)};
}

// Gradients of the gates before their activation, of the cell state, and of a bias.
std::tuple<Tensor, Tensor, Tensor> lstm_cell_backward(const MaybeTensor& hidden_gradient, const MaybeTensor& cell_gradient,
                                                      const Tensor& cell, const Tensor& next_cell, const Tensor& workspace,
                                                      bool has_bias) {
  const bool has_hidden = hidden_gradient && hidden_gradient->defined(), has_cell = cell_gradient && cell_gradient->defined();
  if (!has_hidden && !has_cell) return {};
  const auto gates = workspace.chunk(4, 1);
  const Tensor &input = gates[0], &forget = gates[1], &candidate = gates[2], &output = gates[3];
  const Tensor state = next_cell.tanh();
  const Tensor to_hidden = has_hidden ? *hidden_gradient : at::zeros_like(next_cell);
  const Tensor through_hidden = to_hidden * output * (1 - state * state);
  const Tensor to_cell = has_cell ? *cell_gradient + through_hidden : through_hidden;
  const Tensor gradient = at::cat({to_cell * candidate * input * (1 - input), to_cell * cell * forget * (1 - forget),
                                   to_cell * input * (1 - candidate * candidate), to_hidden * state * output * (1 - output)}, 1);
  return {gradient, to_cell * forget, has_bias ? gradient.sum(0) : Tensor()};
}

// The next hidden state; the workspace has the reset, update and new gate, the state and its part of the new gate.
std::tuple<Tensor, Tensor> gru_cell(const Tensor& input_gates, const Tensor& hidden_gates, const Tensor& hidden,
                                    const MaybeTensor& input_bias, const MaybeTensor& hidden_bias) {
  const auto from_input = with_bias(input_gates, input_bias).chunk(3, 1);
  const auto from_hidden = with_bias(hidden_gates, hidden_bias).chunk(3, 1);
  const Tensor reset = (from_input[0] + from_hidden[0]).sigmoid(), update = (from_input[1] + from_hidden[1]).sigmoid();
  const Tensor candidate = (from_input[2] + reset * from_hidden[2]).tanh();
  return {candidate + update * (hidden - candidate), at::cat({reset, update, candidate, hidden, from_hidden[2]}, 1)};
}

// Gradients of the input's gates, the hidden state's gates, the hidden state, and both biases.
std::tuple<Tensor, Tensor, Tensor, Tensor, Tensor> gru_cell_backward(const Tensor& gradient, const Tensor& workspace, bool has_bias) {
  const auto saved = workspace.chunk(5, 1);
  const Tensor &reset = saved[0], &update = saved[1], &candidate = saved[2], &hidden = saved[3], &hidden_part = saved[4];
  const Tensor to_update = gradient * (hidden - candidate) * (1 - update) * update;
  const Tensor to_candidate = gradient * (1 - update) * (1 - candidate * candidate);
  const Tensor to_reset = to_candidate * hidden_part * (1 - reset) * reset;
  const Tensor to_input = at::cat({to_reset, to_update, to_candidate}, 1);
  const Tensor to_hidden = at::cat({to_reset, to_update, to_candidate * reset}, 1);
  return {to_input, to_hidden, gradient * update, has_bias ? to_input.sum(0) : Tensor(), has_bias ? to_hidden.sum(0) : Tensor()};
}

}  // namespace
}  // namespace neuron

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  for (const char* name : {"convolution", "convolution_backward", "_convolution"})
    m.impl(name, torch::CppFunction::makeFromBoxedFunction<&neuron::run_on_host_kernel>());
  m.impl("_thnn_fused_lstm_cell", neuron::lstm_cell);
  m.impl("_thnn_fused_lstm_cell_backward_impl", neuron::lstm_cell_backward);
  m.impl("_thnn_fused_gru_cell", neuron::gru_cell);
  m.impl("_thnn_fused_gru_cell_backward", neuron::gru_cell_backward);
}
