#include "sim/cost/profile/interpolate.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <vector>

namespace foretrain {
namespace {

TimeSample Line(double work, double seconds) { return {{std::log(work)}, {work, 1}, seconds}; }
TimeSample Cube(double m, double n, double k, double seconds) {
  return {{std::log(m), std::log(n), std::log(k)}, {m * n * k, 1, n * k, m * k, m * n}, seconds};
}
double At(const TimeSurface& surface, const TimeSample& where) {
  return surface(where.at, where.terms).seconds;
}

// 2e-9 x + 3e-6 exactly: the law finds both terms.
TEST(TimeLaw, FindsTheTermsThatMadeTheTimes) {
  std::vector<LawTerms> rows;
  std::vector<double> seconds;
  for (const double x : {100.0, 1000.0, 10000.0, 1e6}) {
    rows.push_back({x, 1});
    seconds.push_back(2e-9 * x + 3e-6);
  }
  const TimeLaw law(rows, seconds);
  EXPECT_NEAR(law({5e5, 1}), 1.003e-3, 1e-12);
  EXPECT_NEAR(law({0, 1}), 3e-6, 1e-12);
}

// Times that fall as work grows (noise) must not give a negative rate; the constant alone fits
// best.
TEST(TimeLaw, NeverHasANegativeTerm) {
  const TimeLaw law({{1, 1}, {2, 1}, {3, 1}}, {3.0, 2.9, 2.8});
  EXPECT_GE(law({1000, 1}), law({1, 1}));
  EXPECT_GT(law({1, 1}), 2.5);
}

// c x through (1, 1 s) and (1000, 2000 s) has the relative errors c - 1 and c / 2 - 1. The sum of
// their squares is least at c = (1 + 1/2) / (1 + 1/4) = 1.2.
TEST(TimeLaw, WeighsRelativeErrors) {
  const TimeLaw law({{1}, {1000}}, {1.0, 2000.0});
  EXPECT_NEAR(law({1}), 1.2, 1e-12);
}

TEST(TimeSurface, PassesThroughItsSamplesInOneDimension) {
  const std::vector<TimeSample> samples{Line(1e3, 4e-6), Line(1e4, 5e-6), Line(1e6, 2e-4),
                                        Line(3e7, 9e-3)};
  const TimeSurface surface(samples, 1);
  for (const TimeSample& sample : samples) {
    const auto value = surface(sample.at, sample.terms);
    EXPECT_TRUE(value.measured);
    EXPECT_NEAR(value.seconds / sample.seconds, 1.0, 1e-12);
  }
  // Halfway in logarithms between 1e4 and 1e6: the geometric mean.
  const TimeSample middle = Line(1e5, 1);
  EXPECT_NEAR(At(surface, middle), std::sqrt(5e-6 * 2e-4), 1e-15);
  EXPECT_FALSE(surface(middle.at, middle.terms).measured);
  EXPECT_TRUE(surface(middle.at, middle.terms).inside);
}

TEST(TimeSurface, GrowsWhereItsSamplesGrow) {
  const TimeSurface surface({Line(1e3, 4e-6), Line(1e4, 5e-6), Line(1e6, 2e-4), Line(3e7, 9e-3)},
                            1);
  double before = 0;
  for (double log = std::log(10.0); log < std::log(1e10); log += 0.05) {
    const double seconds = At(surface, Line(std::exp(log), 1));
    EXPECT_GE(seconds, before);
    before = seconds;
  }
}

// 1e-9 x + 2e-6 through 1e4 and 1e6. Below them the constant dominates, above them the rate.
TEST(TimeSurface, FollowsTheLawOutsideItsSamples) {
  const TimeSurface surface({Line(1e4, 1.2e-5), Line(1e6, 1.002e-3)}, 1);
  EXPECT_NEAR(At(surface, Line(10, 1)), 2.01e-6, 1e-9);
  EXPECT_NEAR(At(surface, Line(1e9, 1)), 1.000002, 1e-4);
  const TimeSample far = Line(1e9, 1);
  EXPECT_FALSE(surface(far.at, far.terms).inside);
}

// One sample alone keeps its rate.
TEST(TimeSurface, OfOneSampleKeepsItsRate) {
  const TimeSurface surface({Line(1000, 1e-3)}, 1);
  EXPECT_NEAR(At(surface, Line(4000, 1)), 4e-3, 1e-12);
  EXPECT_DOUBLE_EQ(surface.error(), 0.25);
}

TEST(TimeSurface, AveragesSamplesAtOnePlace) {
  const TimeSurface surface({Line(1000, 1e-3), Line(1000, 4e-3), Line(2000, 8e-3)}, 1);
  EXPECT_NEAR(At(surface, Line(1000, 1)), 2e-3, 1e-12);
}

// A device of 100 GFLOP/s with 5 us per call, 1 ns per element of b, and a 20 % dip at one shape.
// Between samples, away from the dip, the law holds within a few per cent.
std::vector<TimeSample> Grid() {
  std::vector<TimeSample> samples;
  for (const double m : {64.0, 256.0, 1024.0}) {
    for (const double n : {64.0, 256.0, 1024.0}) {
      for (const double k : {64.0, 256.0, 1024.0}) {
        const double dip = m == 256 && n == 256 && k == 256 ? 1.2 : 1.0;
        samples.push_back(Cube(m, n, k, dip * (5e-6 + 2e-11 * m * n * k + 1e-9 * n * k)));
      }
    }
  }
  return samples;
}

TEST(TimeSurface, PassesThroughItsSamplesInThreeDimensions) {
  const TimeSurface surface(Grid(), 3);
  for (const TimeSample& sample : Grid()) {
    EXPECT_NEAR(At(surface, sample) / sample.seconds, 1.0, 1e-12);
  }
  EXPECT_LT(surface.error(), 0.1);
}

TEST(TimeSurface, PredictsShapesBetweenAndBeyondItsSamples) {
  const TimeSurface surface(Grid(), 3);
  for (const auto& [m, n, k] :
       {std::array{128.0, 512.0, 1024.0}, std::array{512.0, 128.0, 64.0},
        std::array{4096.0, 4096.0, 1024.0}, std::array{16.0, 2048.0, 512.0}}) {
    const double truth = 5e-6 + 2e-11 * m * n * k + 1e-9 * n * k;
    EXPECT_NEAR(At(surface, Cube(m, n, k, 1)) / truth, 1.0, 0.06) << m << ' ' << n << ' ' << k;
  }
}

TEST(TimeSurface, GrowsWithEachSizeOfAGrid) {
  const TimeSurface surface(Grid(), 3);
  for (std::size_t d = 0; d < 3; ++d) {
    for (const double other : {64.0, 200.0, 1024.0}) {
      double before = 0;
      for (double log = std::log(64.0); log <= std::log(1024.0); log += 0.02) {
        std::array<double, 3> size{other, other, other};
        size[d] = std::exp(log);
        const double seconds = At(surface, Cube(size[0], size[1], size[2], 1));
        EXPECT_GE(seconds, before * (1 - 1e-12)) << "dimension " << d << " at " << size[d];
        before = seconds;
      }
    }
  }
}

TEST(LogField, StaysWithinTheRangeOfItsValues) {
  const LogField field({{0, 0, 0}, {1, 0, 0}, {0, 2, 0}}, {1.0, 3.0, 2.0}, 2);
  for (double x = -2; x < 3; x += 0.25) {
    for (double y = -2; y < 3; y += 0.25) {
      EXPECT_GE(field({x, y, 0}), 1.0);
      EXPECT_LE(field({x, y, 0}), 3.0);
    }
  }
}

}  // namespace
}  // namespace foretrain
