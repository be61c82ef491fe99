#include "tests/runtime/equality/training_by_hand.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "kernels/cpu/cpu_device.h"
#include "runtime/device/device.h"

namespace foretrain {

Trained OneStep(const ModelSpec& model, const Plan& plan, const TensorSource& weights, int step,
                BatchSource& data) {
  Trained trained;
  auto program = Compile(model, plan);
  RealClock clock;
  ExecutorOptions options;
  options.first_step = step;
  auto executor = Executor::Make(std::make_shared<const Program>(*std::move(program)),
                                 CpuDeviceApi(), clock, options);
  EXPECT_TRUE(FillParameters(**executor, weights).has_value());
  RecordingSink sink;
  EXPECT_TRUE((*executor)->Run(1, data, sink).has_value());
  trained.losses = {sink.scalars.front().loss.value_or(0.0F)};
  trained.gradients = GatherTensors(**executor, GatheredState::kGradients);
  trained.parameters = GatherTensors(**executor, GatheredState::kParameters);
  return trained;
}

TensorSource SourceOf(const TensorMap& tensors) {
  return [&tensors](const ParameterPlace& place, std::int64_t row, std::int64_t col,
                    std::span<float> out) -> Result<void> {
    const Tensor& tensor = tensors.at(place.name);
    std::copy_n(tensor.values.begin() + row * tensor.cols + col, out.size(), out.begin());
    return {};
  };
}

void UpdateByHand(OptimizerKind optimizer, const ParameterPlace& place, const Tensor& gradient,
                  std::int64_t step, float rate, Tensor& parameter, Moments& moments) {
  const OptimizerSettings settings;
  const auto elements = static_cast<std::int64_t>(parameter.values.size());
  const std::int64_t decayed = place.decays ? elements : 0;
  auto queue = DeviceQueue::Make(CpuDeviceApi(), 0);
  ASSERT_TRUE(queue.has_value());
  if (optimizer == OptimizerKind::kSgd) {
    FtSgd call{};
    call.param = parameter.values.data();
    call.grad = gradient.values.data();
    call.elements = elements;
    call.decayed = decayed;
    call.lr = rate;
    call.weight_decay = settings.weight_decay;
    call.loss_scale = 1.0F;
    call.dtype = FT_F32;
    ASSERT_EQ(CpuDeviceApi().sgd(queue->get(), &call), FT_OK);
    return;
  }
  moments.first.resize(parameter.values.size());
  if (MomentsOf(optimizer) == 1) {
    const bool lion = optimizer == OptimizerKind::kLion;
    FtMomentum call{};
    call.param = parameter.values.data();
    call.grad = gradient.values.data();
    call.moment1 = moments.first.data();
    call.elements = elements;
    call.decayed = decayed;
    call.lr = rate;
    call.beta1 = settings.beta1;
    call.beta2 = settings.beta2;
    call.weight_decay = settings.weight_decay;
    call.loss_scale = 1.0F;
    call.dtype = FT_F32;
    const auto update = lion ? CpuDeviceApi().lion : CpuDeviceApi().momentum;
    ASSERT_EQ(update(queue->get(), &call), FT_OK);
    return;
  }
  moments.second.resize(parameter.values.size());
  FtAdamW call{};
  call.param = parameter.values.data();
  call.grad = gradient.values.data();
  call.moment1 = moments.first.data();
  call.moment2 = moments.second.data();
  call.elements = elements;
  call.decayed = decayed;
  call.step = step;
  call.lr = rate;
  call.beta1 = settings.beta1;
  call.beta2 = settings.beta2;
  call.epsilon = settings.epsilon;
  call.weight_decay = settings.weight_decay;
  call.loss_scale = 1.0F;
  call.dtype = FT_F32;
  ASSERT_EQ(CpuDeviceApi().adamw(queue->get(), &call), FT_OK);
}

}  // namespace foretrain
