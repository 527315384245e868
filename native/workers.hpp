// Threads that share the items of a loop. They wait briefly for the next loop, then sleep.
#pragma once
#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace prunus {

class Workers {
 public:
  explicit Workers(int threads);
  ~Workers();
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  int threads() const { return static_cast<int>(threads_.size()) + 1; }

  // Call work(item, worker) for every item; the calling thread is worker 0.
  template <class Work>
  void each(long items, Work&& work) {
    if (threads_.empty() || items < 2) {
      for (long item = 0; item < items; item++) work(item, 0);
      return;
    }
    run(items, [](void* context, long item, int worker) { (*static_cast<std::remove_reference_t<Work>*>(context))(item, worker); },
        &work);
  }

 private:
  using Call = void (*)(void*, long, int);
  void run(long items, Call call, void* context);
  void take(int worker);
  void live(int worker);

  std::vector<std::thread> threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::atomic<long> round_{0};
  std::atomic<long> next_{0};
  std::atomic<int> busy_{0};
  std::atomic<bool> stop_{false};
  long items_ = 0;
  Call call_ = nullptr;
  void* context_ = nullptr;
};

}  // namespace prunus
