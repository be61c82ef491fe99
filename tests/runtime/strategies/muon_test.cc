// Muon in a whole run: its update by hand, and equality between plans.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "runtime/data/token_data.h"
#include "tests/runtime/equality/training_by_hand.h"
#include "tests/runtime/training.h"
#include "tests/runtime/whole_tensors.h"

namespace foretrain {
namespace {

using Matrix = std::vector<double>;  // row by row

// a [rows, inner] times b [inner, cols].
Matrix Product(const Matrix& a, const Matrix& b, std::size_t rows, std::size_t inner,
               std::size_t cols) {
  Matrix c(rows * cols);
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t k = 0; k < inner; ++k) {
      for (std::size_t j = 0; j < cols; ++j) c[i * cols + j] += a[i * inner + k] * b[k * cols + j];
    }
  }
  return c;
}

Matrix Transposed(const Matrix& a, std::size_t rows, std::size_t cols) {
  Matrix t(a.size());
  for (std::size_t i = 0; i < rows; ++i) {
    for (std::size_t j = 0; j < cols; ++j) t[j * rows + i] = a[i * cols + j];
  }
  return t;
}

// Five iterations of x (a I + b A + c A A) with A = x x^T, on the transposed matrix if it is tall.
Matrix Orthogonal(Matrix x, std::size_t rows, std::size_t cols) {
  if (rows > cols) return Transposed(Orthogonal(Transposed(x, rows, cols), cols, rows), cols, rows);
  double squares = 0;
  for (const double v : x) squares += v * v;
  for (double& v : x) v /= std::sqrt(squares) + 1e-7;
  for (int i = 0; i < 5; ++i) {
    const Matrix a = Product(x, Transposed(x, rows, cols), rows, cols, rows);
    Matrix b = Product(a, a, rows, rows, rows);
    for (std::size_t k = 0; k < b.size(); ++k) b[k] = -4.775 * a[k] + 2.0315 * b[k];
    const Matrix bx = Product(b, x, rows, rows, cols);
    for (std::size_t k = 0; k < x.size(); ++k) x[k] = 3.4445 * x[k] + bx[k];
  }
  return x;
}

bool IsMuons(const std::string& name, const Tensor& tensor) {
  return name.starts_with("layers.") && tensor.rows > 1;
}

Plan MuonPlan() {
  Plan plan = TinyPlan();
  plan.optimizer = OptimizerKind::kMuon;
  return plan;
}

// Gradients come from runs of one step each. An update has the root mean square 0.2 lr = 0.002;
// fp32 products of the iterations, which enlarge small singular values, are right to 1e-3 of it.
TEST(Muon, OrthogonalizesTheMomentumOfEachMatrix) {
  const ModelSpec model = TinyLlama();
  const Plan plan = MuonPlan();
  TrainingOptions options;
  auto data = TokenData::FromText(TrainingText(), "text", model.vocab, plan);
  auto parameters = *ReadTensors(model, InitialWeights(model, options.seed));
  std::map<std::string, Matrix> moments;
  for (int step = 0; step < 2; ++step) {
    options.steps = step + 1;
    const Trained trained = TrainTiny(model, plan, options);
    const Trained now = OneStep(model, plan, SourceOf(parameters), step, **data);
    int matrices = 0;
    for (const auto& [name, tensor] : parameters) {
      if (!IsMuons(name, tensor)) continue;
      ++matrices;
      const std::vector<float>& gradient = now.gradients.at(name).values;
      Matrix& moment = moments[name];
      moment.resize(gradient.size());
      Matrix momentum(gradient.size());
      for (std::size_t i = 0; i < moment.size(); ++i) {
        moment[i] = 0.95 * moment[i] + 0.05 * double{gradient[i]};
        momentum[i] = 0.95 * moment[i] + 0.05 * double{gradient[i]};
      }
      const auto rows = static_cast<std::size_t>(tensor.rows);
      const auto cols = static_cast<std::size_t>(tensor.cols);
      const Matrix direction = Orthogonal(momentum, rows, cols);
      const double size = 0.2 * std::sqrt(static_cast<double>(std::max(rows, cols)));
      double largest = 0;
      for (std::size_t i = 0; i < direction.size(); ++i) {
        const double before = tensor.values[i];
        const double expected = before - 1e-2 * (0.1 * before + size * direction[i]);
        largest =
            std::max(largest, std::fabs(double{trained.parameters.at(name).values[i]} - expected));
      }
      EXPECT_LT(largest, 2e-6) << name << ", step " << step;
    }
    EXPECT_EQ(matrices, 4 * 7) << "q, k, v, out, gate, up and down of four layers";
    parameters = trained.parameters;
  }
}

// Everything else is AdamW's: the first step moves each by its learning rate, whatever the
// gradient.
TEST(Muon, LeavesTablesAndVectorsToAdamW) {
  TrainingOptions options;
  options.steps = 1;
  Plan plan = MuonPlan();
  const Trained muon = TrainTiny(TinyGpt(), plan, options);
  plan.optimizer = OptimizerKind::kAdamW;
  const Trained adamw = TrainTiny(TinyGpt(), plan, options);
  for (const auto& [name, tensor] : adamw.parameters) {
    EXPECT_EQ(muon.parameters.at(name).values == tensor.values, !IsMuons(name, tensor)) << name;
  }
}

// Ranks orthogonalize the same matrices, whichever part of them they update. Without clipping: the
// norm is summed in the order of the buckets, which ZeRO-3 changes.
TEST(Muon, TrainsToTheBitWhereverItsStateLies) {
  Plan plan = MuonPlan();
  plan.dp = 2;
  plan.global_batch = 2;
  const Trained whole = TrainTiny(TinyGpt(), plan);
  EXPECT_LT(whole.losses.back(), whole.losses.front());
  void (*const changes[])(Plan&) = {
      [](Plan& p) { p.zero_stage = 1; }, [](Plan& p) { p.zero_stage = 2; },
      [](Plan& p) { p.zero_stage = 3; }, [](Plan& p) { p.zero_stage = 1, p.bucket_bytes = 1000; }};
  for (const auto change : changes) {
    Plan other = plan;
    change(other);
    const Trained trained = TrainTiny(TinyGpt(), other);
    EXPECT_EQ(trained.losses, whole.losses) << Describe(other);
    for (const auto& [name, tensor] : trained.parameters) {
      EXPECT_EQ(tensor.values, whole.parameters.at(name).values) << Describe(other) << ' ' << name;
    }
  }
}

// A direction that a gradient hardly has grows by up to 3.4445^5 = 485 in a step, and so do the
// roundings in it, which attention over parts of a sequence changes.
TEST(Muon, HasTheLossesOfOneRankUnderOtherPlans) {
  struct Case {
    void (*change)(Plan&);
    float tolerance = 1e-4F;
  };
  const Case cases[] = {
      {[](Plan& p) { p.dp = 4, p.zero_stage = 1; }},
      {[](Plan& p) { p.pp = 2; }},
      {[](Plan& p) { p.cp = 2, p.zero_stage = 1; }, 5e-3F},
      {[](Plan& p) { p.dp = p.pp = 2, p.schedule = ScheduleKind::kZbH1, p.zero_stage = 1; }}};
  for (const ModelSpec& model : {TinyGpt(), TinyExperts()}) {
    const Trained one = TrainTiny(model, MuonPlan());
    for (const Case& c : cases) {
      Plan plan = MuonPlan();
      c.change(plan);
      const Trained trained = TrainTiny(model, plan);
      for (std::size_t i = 0; i < one.losses.size(); ++i) {
        EXPECT_NEAR(trained.losses[i], one.losses[i], c.tolerance)
            << Describe(plan) << ", step " << i;
      }
    }
  }
}

TEST(Muon, TrainsWithMasters) {
  Plan plan = MuonPlan();
  plan.dp = 2, plan.zero_stage = 1, plan.precision = Precision::kBf16;
  const Trained trained = TrainTiny(TinyGpt(), plan);
  EXPECT_LT(trained.losses.back(), trained.losses.front());
}

}  // namespace
}  // namespace foretrain
