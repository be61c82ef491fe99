// Compares 8-bit codes with PyTorch's, bit for bit.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/numeric/number_formats.h"
#include "tests/app/run_binary.h"
#include "tests/app/torch/torch_peer.h"
#include "tests/paths.h"

namespace foretrain {
namespace {

// All numbers of bf16 and fp16, all midpoints between codes with their neighbours, and a million
// others.
std::vector<float> Numbers() {
  std::vector<float> x;
  for (int i = 0; i < 65536; ++i) {
    x.push_back(FloatOfBf16(static_cast<std::uint16_t>(i)));
    x.push_back(FloatOfFp16(static_cast<std::uint16_t>(i)));
  }
  for (int code = 0; code < 126; ++code) {
    const auto a = static_cast<std::uint8_t>(code), b = static_cast<std::uint8_t>(code + 1);
    for (const float middle :
         {(FloatOfFp8(a) + FloatOfFp8(b)) / 2, (FloatOfE5m2(a) + FloatOfE5m2(b)) / 2}) {
      for (const float near :
           {middle, std::nextafter(middle, 0.0F), std::nextafter(middle, 1e30F)}) {
        x.push_back(near);
        x.push_back(-near);
      }
    }
  }
  std::mt19937 random(3);
  for (int i = 0; i < 1000000; ++i) {
    x.push_back(FloatOfBits(static_cast<std::uint32_t>(random())));
  }
  return x;
}

std::string BytesOf(const std::vector<float>& x) {
  return {reinterpret_cast<const char*>(x.data()), x.size() * sizeof(float)};
}

TEST(Fp8Casts, AreThoseOfPyTorchBitForBit) {
  if (TorchPython().empty()) GTEST_SKIP() << kNoTorch;
  struct Format {
    const char* name;
    float largest;
    std::uint8_t (*code)(float);
  };
  const Format formats[] = {
      {"float8_e4m3fn", 448.0F, [](float x) { return Fp8OfFloat(x); }},
      {"float8_e5m2", 57344.0F, [](float x) { return E5m2OfFloat(x); }},
  };
  const std::vector<float> x = Numbers();
  const TemporaryFolder folder;
  folder.Write("numbers", BytesOf(x));
  for (const Format& format : formats) {
    const ProgramEnd end =
        RunCommand(folder.path(), "'" + TorchPython() + "' '" + SourcePath("tests/torch/casts.py") +
                                      "' numbers " + format.name + " " +
                                      std::to_string(format.largest) + " codes");
    ASSERT_EQ(end.code, 0) << end.errors;
    const std::string codes = folder.Read("codes");
    ASSERT_EQ(codes.size(), x.size());
    for (std::size_t i = 0; i < x.size(); ++i) {
      if (!(std::fabs(x[i]) <= format.largest)) continue;
      ASSERT_EQ(format.code(x[i]), static_cast<std::uint8_t>(codes[i]))
          << format.name << " of " << x[i];
    }
  }
}

}  // namespace
}  // namespace foretrain
