// 8-bit formats by definition (OCP 8-bit Floating Point Specification 2023), in double and by
// search, and matrices of codes with scales: the reference for programs in 8 bits.
#pragma once

#include <cstdint>
#include <vector>

namespace foretrain {

enum class Code8 : std::uint8_t { kE4m3, kE5m2 };

double LargestOf(Code8 format);  // 448, 57344
// Value of a code; NaN or infinity for codes without a number.
double ValueOf(Code8 format, std::uint8_t code);
// Distance of x from the nearest number with a code.
double DistanceTo(Code8 format, double x);

// Numbers of a matrix that share a scale.
enum class Shared8 : std::uint8_t { kAll, kRows128, kColumns128, kSquares128 };
std::int64_t ScaleOf(Shared8 shared, std::int64_t cols, std::int64_t row, std::int64_t col);

// Stored row by row.
struct Matrix8 {
  Code8 format = Code8::kE4m3;
  Shared8 shared = Shared8::kAll;
  std::int64_t rows = 0, cols = 0;
  const std::uint8_t* codes = nullptr;
  const float* scales = nullptr;

  double At(std::int64_t row, std::int64_t col) const;
};

// Expects each scale to be the maximum magnitude of its numbers divided by the largest code. Each
// code must be the nearest to x / scale, up to fp32 rounding.
void ExpectQuantized(const std::vector<double>& x, const Matrix8& made);

}  // namespace foretrain
