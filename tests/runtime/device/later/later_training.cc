#include "tests/runtime/device/later/later_training.h"

#include <gtest/gtest.h>

#include "kernels/cpu/cpu_device.h"
#include "tests/runtime/device/later/later_device.h"
#include "tests/runtime/training.h"

namespace foretrain {

void ExpectTrainsAlikeLater(const Plan& plan, const char* name) {
  TrainingOptions options;
  options.steps = 3;
  const Trained expected = TrainTiny(TinyGpt(), plan, options);
  options.api = &LaterDeviceApi(CpuDeviceApi());
  for (const std::uint64_t delays : {1, 2, 3, 4}) {
    options.record = delays % 2 == 1;  // without timing, few ops have an event
    options.graphs = delays > 2;
    Later().Reset();
    Later().delays = delays;
    EXPECT_TRUE(SameBits(expected, TrainTiny(TinyGpt(), plan, options)))
        << name << ", delays " << delays;
    EXPECT_EQ(Later().Live(), 0) << name;
  }
}

}  // namespace foretrain
