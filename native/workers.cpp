#include "workers.hpp"

namespace prunus {

namespace {
constexpr int kSpins = 20000;  // some tens of microseconds: longer than the pause between two layers

inline void pause() {
#if defined(__x86_64__) || defined(_M_X64)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}
}  // namespace

Workers::Workers(int threads) {
  for (int worker = 1; worker < threads; worker++) threads_.emplace_back([this, worker] { live(worker); });
}

Workers::~Workers() {
  {
    std::lock_guard<std::mutex> lock(mutex_);
    stop_ = true;
    round_++;
  }
  wake_.notify_all();
  for (std::thread& each : threads_) each.join();
}

void Workers::run(long items, Call call, void* context) {
  items_ = items;
  call_ = call;
  context_ = context;
  next_.store(0);
  busy_.store(static_cast<int>(threads_.size()));
  {
    std::lock_guard<std::mutex> lock(mutex_);  // else a worker could fall asleep just now and miss the round
    round_++;
  }
  wake_.notify_all();
  take(0);
  for (int spins = 0; busy_.load() > 0; spins++) spins < kSpins ? pause() : std::this_thread::yield();
}

void Workers::take(int worker) {
  for (long item = next_.fetch_add(1); item < items_; item = next_.fetch_add(1)) call_(context_, item, worker);
}

void Workers::live(int worker) {
  long seen = 0;
  while (true) {
    for (int spins = 0; spins < kSpins && round_.load() == seen; spins++) pause();
    if (round_.load() == seen) {
      std::unique_lock<std::mutex> lock(mutex_);
      wake_.wait(lock, [&] { return round_.load() != seen; });
    }
    seen = round_.load();
    if (stop_) return;
    take(worker);
    busy_--;
  }
}

}  // namespace prunus
