is_host=0
if [ @is_first@ ]; then is_host=1; fi
@exec@python -m envlab.distributed.torchrun \
    --nnodes=@nodes@ --nproc_per_node=@processes@ --max_restarts=@max_restarts@ \
    --rdzv_backend=c10d --rdzv_id=@meeting_name@ --rdzv_endpoint=@endpoint@ \
    --rdzv_conf="is_host=$is_host" @options@\
    --shutdown_timeout=@shutdown_timeout_s@ "$@"
